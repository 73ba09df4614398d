"""Tasks that build and describe client stores."""
