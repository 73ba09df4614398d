"""The server optimizers that a config can name: one module for each value of `server.type`.

These modules import no TensorFlow at their top.
"""
