"""The next-word models that a config can name: one module for each value of `model.type`.

These modules import no TensorFlow at their top.
"""
