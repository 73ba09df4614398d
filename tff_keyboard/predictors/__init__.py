"""Next-word predictors: the interface, and Keras models, n-grams and hybrids."""
