"""Counts the predictions of models on clients' text, as sums per client."""
