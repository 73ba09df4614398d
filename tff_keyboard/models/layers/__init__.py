"""What the models are built of: recurrence, embedding, dropout, packed sequences."""
