"""The mechanisms that a config can name: one module for each value of `aggregation.privacy.type`.

These modules import no TensorFlow, and no SciPy at their top.
"""
