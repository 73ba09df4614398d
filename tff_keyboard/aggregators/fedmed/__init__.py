"""Mediated aggregation (Wu et al. 2020)."""
