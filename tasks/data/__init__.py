"""Tasks that make and describe client stores."""
