"""A keyboard around an exported model: strip, typing, corrections, the owner's words."""
