"""Differentially private sums and means; which noise they get is decided outside."""
