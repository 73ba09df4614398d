"""Files of ours on disk: whole or not there, and the run directory. Imports no TensorFlow."""
