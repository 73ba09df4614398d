"""Tasks that train."""
