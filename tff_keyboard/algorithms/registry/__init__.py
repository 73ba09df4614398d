"""The client algorithms that a config can name: one module for each value of `client.type`.

These modules import no TensorFlow at their top.
"""
