"""Recall, perplexity and their intervals: sums per client first, ratios after."""
