"""Tasks to begin with."""
