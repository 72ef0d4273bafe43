"""Scores of translations: BLEU and chrF with bootstrap samples, and rates; for every layer."""
