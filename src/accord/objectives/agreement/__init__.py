"""Agreement-based training (Al-Shedivat & Parikh 2019): both sides of a pair, one translation."""
