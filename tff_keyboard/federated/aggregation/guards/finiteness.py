"""Tells whether tensors are finite, in one sweep over their memory.

    all finite  <=>  sum of squares is finite,   or it overflowed and each number is looked at

A NaN or an infinity makes the sum NaN or infinite; numbers beyond 1e19 may overflow it, so only
then the exact test runs. `tf.nn.l2_loss` writes nothing, `tf.math.is_finite` a tensor of its own.
"""

from collections.abc import Sequence

import tensorflow as tf


def all_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """bool scalar; True for no tensors. Tensors of integers are finite."""
    tensors = [tensor for tensor in map(tf.convert_to_tensor, tensors) if tensor.dtype.is_floating]
    if not tensors:
        return tf.constant(True)
    sums_are_finite = tf.reduce_all(
        tf.stack([tf.math.is_finite(tf.nn.l2_loss(x)) for x in tensors])
    )

    def exactly() -> tf.Tensor:
        return tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(x)) for x in tensors]))

    return tf.cond(sums_are_finite, lambda: tf.constant(True), exactly)
