"""Our files on disk, each of them whole or absent, and the run directory. Imports no TensorFlow."""
