"""A word table as an export of int4 rows holds it, for training that reads it so.

    step[r] = base * code[r],  code in 1..127;   row[r] ~ step[r] * q[r],  q in -7..7

with a step of 0.9 / 7 of the row's largest magnitude: the few values beyond 6.75 steps are cut, and
the squared error is 5 % above that of the best step of each row. The derivative is that of no
rounding (straight through): clients move the float table by what the rounded one costs. The largest
magnitude is 7 steps, so `quantize_rows_int4` of an export finds these very rows.
Source: Bengio, Léonard and Courville 2013, https://arxiv.org/abs/1308.3432 (straight-through).
"""

import tensorflow as tf

_LIMIT = 7.0  # int4, symmetric
_CODES = 127.0
_CUT = 0.9


def rounded_rows(table: tf.Tensor) -> tf.Tensor:
    """[rows, columns] float32, of a float32 table; the gradient passes through."""
    steps = tf.reduce_max(tf.abs(table), axis=1, keepdims=True) * (_CUT / _LIMIT)  # [rows, 1]
    base = tf.maximum(tf.reduce_max(steps) / _CODES, 1e-30)  # a table of zeros
    steps = base * tf.clip_by_value(tf.round(steps / base), 1.0, _CODES)
    values = tf.clip_by_value(tf.round(table / steps), -_LIMIT, _LIMIT)
    return table + tf.stop_gradient(values * steps - table)
