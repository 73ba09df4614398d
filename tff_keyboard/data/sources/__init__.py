"""Sources of text: files, other stores and synthetic users."""
