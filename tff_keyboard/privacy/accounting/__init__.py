"""Epsilon and delta of mechanisms."""
