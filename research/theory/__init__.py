"""A laboratory of toy languages, so small that every sum over sentences is exact.

Here the claims behind agreement can be checked to the last digit: which objective bounds which, and
whether a small training loss forces the loss of directions without data to be small as well.
"""
