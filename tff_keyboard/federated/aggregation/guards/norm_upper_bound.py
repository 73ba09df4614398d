"""A bound on the length of a delta that holds whatever the delta, in one sweep that writes nothing.

Clipping for differential privacy may not take a delta for shorter than it is. A sum in float32 may:
that of n squares, in any order, is wrong by up to n u of itself (u = 2^-24; Higham 2002, Accuracy
and Stability of Numerical Algorithms, section 4.2), 8 % at a million. In float64 it is right, but
the delta is copied twice, which for a client with little text takes a quarter of its time. So
squares are summed in rows of 256 in float32 and the rows in float64:

    ||x||  <=  (1 + 1e-5) sqrt(sum_r s_r^2) + 1e-14,      s_r = float32 norm of row r

A row's norm is at most 128 u + u < 7.8e-6 too small, and squares that underflow are worth less than
1e-14 together. Where a row overflows, all is summed in float64.
"""

from collections.abc import Sequence

import tensorflow as tf

ROW = 256
SLACK = 1e-5
UNDERFLOW = 1e-14


def l2_norm_upper_bound(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """float64 scalar: at least the L2 norm of all tensors together, at most 1 + 2e-5 times it.

    (Beside 1e-14, which tensors of zeros have, too.) `tensors` are float32, of known shapes, at
    least one, finite.
    """
    squares = [tf.reduce_sum(tf.square(tf.cast(rows, tf.float64))) for rows in _row_norms(tensors)]
    norm = tf.sqrt(tf.add_n(squares))

    def in_float64() -> tf.Tensor:
        exact = [tf.reduce_sum(tf.square(tf.cast(x, tf.float64))) for x in tensors]
        return tf.sqrt(tf.add_n(exact))

    norm = tf.cond(tf.math.is_finite(norm), lambda: norm, in_float64)
    return norm * (1 + SLACK) + UNDERFLOW


def _row_norms(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Norms of rows of up to 256 numbers, float32."""
    norms = []
    for tensor in tensors:
        flat = tf.reshape(tensor, [-1])
        whole = flat.shape[0] // ROW * ROW
        for part, width in ((flat[:whole], ROW), (flat[whole:], flat.shape[0] - whole)):
            if part.shape[0]:
                rows = tf.reshape(part, [-1, width])
                norms.append(tf.math.reduce_euclidean_norm(rows, axis=1))
    return norms
