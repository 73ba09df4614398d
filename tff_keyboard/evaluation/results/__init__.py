"""Results of models on a text, alone and in comparisons, as typed values and files."""
