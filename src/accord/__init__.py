"""Accord: one translation model for all directions, also those without data."""

__version__ = "0.1.0.dev0"
