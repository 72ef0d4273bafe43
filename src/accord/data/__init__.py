"""Text files become a clean, disjoint, tokenised store, and the store becomes batches."""
