"""Prepares a client store from text: grouping, populations, vocabulary, data card."""
