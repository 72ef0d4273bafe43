"""Scores of translations: BLEU and chrF, rates, bootstrap samples; one road for every layer."""
