"""An upper bound on the norm of any update, in one pass that writes nothing.

Clipping for differential privacy must not underestimate the norm of an update. A float32 sum may: a
sum of n squares, in any order, has a relative error of up to n u (u = 2^-24; Higham 2002, Accuracy
and Stability of Numerical Algorithms, section 4.2), 8 % for a million. A float64 sum is correct,
but copies the update twice, which takes a quarter of the time of a client with little text. Squares
are therefore summed in rows of 256 in float32, and the rows in float64:

    ||x||  <=  (1 + 1e-5) sqrt(sum_r s_r^2) + 1e-14,      s_r = float32 norm of row r

A row's norm is at most 128 u + u < 7.8e-6 too small, and squares that underflow contribute less
than 1e-14 together. If a row overflows, everything is summed in float64.
"""

from collections.abc import Sequence

import tensorflow as tf

ROW = 256
SLACK = 1e-5
UNDERFLOW = 1e-14


def l2_norm_upper_bound(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns an upper bound on the L2 norm of all tensors together, float64 scalar.

    It is at most 1 + 2e-5 times the norm, plus 1e-14. `tensors` are float32 with known shapes, at
    least one, and finite.
    """
    squares = [tf.reduce_sum(tf.square(tf.cast(rows, tf.float64))) for rows in _row_norms(tensors)]
    norm = tf.sqrt(tf.add_n(squares))

    def in_float64() -> tf.Tensor:
        exact = [tf.reduce_sum(tf.square(tf.cast(x, tf.float64))) for x in tensors]
        return tf.sqrt(tf.add_n(exact))

    norm = tf.cond(tf.math.is_finite(norm), lambda: norm, in_float64)
    return norm * (1 + SLACK) + UNDERFLOW


def _row_norms(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the norms of rows of up to 256 numbers, float32."""
    norms = []
    for tensor in tensors:
        flat = tf.reshape(tensor, [-1])
        whole = flat.shape[0] // ROW * ROW
        for part, width in ((flat[:whole], ROW), (flat[whole:], flat.shape[0] - whole)):
            if part.shape[0]:
                rows = tf.reshape(part, [-1, width])
                norms.append(tf.math.reduce_euclidean_norm(rows, axis=1))
    return norms
