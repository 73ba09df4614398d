"""Optimizers as TFF takes them."""
