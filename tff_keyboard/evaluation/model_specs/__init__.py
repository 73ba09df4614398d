"""Opens models by their names on the command line, such as `hybrid:runs/a` or `ngram:500kB`."""
