"""Models read people's text; sums per person come out."""
