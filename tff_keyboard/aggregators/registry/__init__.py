"""The aggregators that a config can name: one module for each value of `aggregation.rule.type`.

These modules import no TensorFlow at their top.
"""
