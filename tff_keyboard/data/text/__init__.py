"""Converts text to words: tokenisers and their rules."""
