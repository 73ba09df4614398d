"""Recommends a training for the size of a corpus, from measured runs."""
