"""Bringing the corpora of the paper to this machine: what, from where, checked, unpacked."""
