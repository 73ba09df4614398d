"""Tasks that check the machine."""
