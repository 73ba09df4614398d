"""From people's text to a client store: grouping, populations, vocabulary, data card."""
