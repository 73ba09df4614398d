"""What a person means by a model's name, such as `hybrid:runs/a` or `ngram:500kB`."""
