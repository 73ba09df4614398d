"""What suggests words: the interface, and Keras models, n-grams and hybrids behind it."""
