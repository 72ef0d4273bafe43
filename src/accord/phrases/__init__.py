"""Phrase-based statistical translation, one system for each direction; Thot computes."""
