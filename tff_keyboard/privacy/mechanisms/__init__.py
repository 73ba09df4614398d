"""Noise mechanisms: coefficients, sensitivity, keys and random draws."""
