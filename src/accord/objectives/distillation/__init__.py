"""Synthetic pairs for directions without data: chosen, translated, filtered, kept in rounds."""
