"""Suggests words with an exported model, as a keyboard does."""
