"""Building blocks of the models: recurrence, embedding, dropout, packed sequences."""
