"""Exported models: opened, checked and searched with NumPy and ONNX Runtime, without PyTorch."""
