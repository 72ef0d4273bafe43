"""A model as ONNX graphs, written node by node."""
