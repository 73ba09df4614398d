"""Differentially private sums and means. Their noise comes from outside."""
