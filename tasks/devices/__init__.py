"""Rounds with devices: who serves them, who takes part, who watches."""
