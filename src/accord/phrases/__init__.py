"""Phrase-based statistical translation: words, alignment, phrases, language model, weights, search."""
