"""What to train on a corpus of this size, from measured runs."""
