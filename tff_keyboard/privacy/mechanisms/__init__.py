"""Kinds of noise: coefficients, sensitivity, keys, draws."""
