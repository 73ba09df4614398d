"""Training on the phone: one person's messages, and what it is worth to each of many."""
