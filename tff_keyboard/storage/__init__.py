"""Files that are either complete or absent, and the run directory. Imports no TensorFlow."""
