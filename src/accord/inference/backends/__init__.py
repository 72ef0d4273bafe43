"""Backends: what computes behind a `Translator`, PyTorch or the runtime of an exported format."""
