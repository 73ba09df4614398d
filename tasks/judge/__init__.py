"""Tasks that evaluate models."""
