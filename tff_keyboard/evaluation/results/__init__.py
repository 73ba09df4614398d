"""What a model is worth on a text, as typed values and files, alone and beside others."""
