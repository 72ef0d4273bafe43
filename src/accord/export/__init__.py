"""From a trained model to a directory that translates without PyTorch."""
