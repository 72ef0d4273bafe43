"""How good a trained model is, in every direction, and whether one is better than another."""
