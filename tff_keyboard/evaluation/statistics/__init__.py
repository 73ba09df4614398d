"""Computes figures with intervals from sums per client."""
