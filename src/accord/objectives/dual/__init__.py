"""Dual learning (Sestorain et al. 2018): rewards for round trips through zero-shot directions."""
