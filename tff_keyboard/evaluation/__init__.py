"""What a model is worth to people it never trained on: sums per person, ratios, intervals."""
