"""Checks if tensors are finite, in one pass over their memory.

    all finite  <=>  sum of squares is finite,   or it overflowed and each number is finite

A NaN or an infinity makes the sum NaN or infinite. Numbers above 1e19 may overflow it, so the exact
test runs only in this case. `tf.nn.l2_loss` writes nothing; `tf.math.is_finite` writes a tensor.
"""

from collections.abc import Sequence

import tensorflow as tf


@tf.autograph.experimental.do_not_convert
def all_finite(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns a bool scalar; True without tensors. Integer tensors are finite."""
    tensors = [tensor for tensor in map(tf.convert_to_tensor, tensors) if tensor.dtype.is_floating]
    if not tensors:
        return tf.constant(True)
    sums_are_finite = tf.reduce_all(
        tf.stack([tf.math.is_finite(tf.nn.l2_loss(x)) for x in tensors])
    )

    def exactly() -> tf.Tensor:
        return tf.reduce_all(tf.stack([tf.reduce_all(tf.math.is_finite(x)) for x in tensors]))

    return tf.cond(sums_are_finite, lambda: tf.constant(True), exactly)
