"""Federated next-word models for a keyboard."""

__version__ = "0.1.0"
