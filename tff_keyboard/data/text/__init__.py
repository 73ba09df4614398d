"""Text to words: tokenisers and their rules."""
