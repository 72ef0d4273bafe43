"""The paper's experiments, end to end: planned, run, and held against its numbers and claims."""
