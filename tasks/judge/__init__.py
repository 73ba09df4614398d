"""Tasks that say what a model is worth."""
