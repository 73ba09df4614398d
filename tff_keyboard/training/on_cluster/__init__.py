"""Runs a training on a cluster: nodes get names of clients instead of text."""
