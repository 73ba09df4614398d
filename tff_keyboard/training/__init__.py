"""Trains a config: the result is a run directory with a model. The top layer of the library."""
