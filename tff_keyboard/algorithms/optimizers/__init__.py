"""Optimizers in TFF's interface."""
