"""Combines a network, an n-gram and the owner's words in one predictor. NumPy only."""
