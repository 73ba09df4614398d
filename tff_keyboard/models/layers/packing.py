"""Packed sequences: the positions of real tokens only, in the order a recurrence visits them.

A batch of messages padded to the longest is half padding. If the rows are sorted by length, the
rows still running at step t are the first `counts[t]`, so a batch can be stored as one matrix

    [rows of step 0; rows of step 1; ...]        step t begins at row `starts[t]`

without padding. Matrix products over all positions, elementwise operations and the steps themselves
then only process real tokens. cuDNN and PyTorch have the same packed sequences.
"""

from typing import NamedTuple

import tensorflow as tf


class Packing(NamedTuple):
    """The order of packed rows, and the rows of each step."""

    positions: tf.Tensor  # [n, 2] int32, (row, time) of each packed row in the padded batch
    counts: tf.Tensor  # [steps] int32, rows of each step, > 0, not increasing
    starts: tf.Tensor  # [steps] int32, first packed row of each step


def pack(lengths: tf.Tensor, time: tf.Tensor | int) -> Packing:
    """Returns the packing of a batch.

    Args:
      lengths: [batch] int32 >= 0, the number of real tokens at the start of each row.
      time: Width of the padded batch, >= every length.
    """
    longest_first = tf.argsort(lengths, direction="DESCENDING", stable=True)
    running = tf.range(time)[:, tf.newaxis] < tf.gather(lengths, longest_first)  # [time, batch]
    visited = tf.where(running)  # by time, then by sorted row
    rows = tf.gather(longest_first, visited[:, 1])
    positions = tf.stack([rows, tf.cast(visited[:, 0], tf.int32)], axis=1)
    counts = tf.math.count_nonzero(running, axis=1, dtype=tf.int32)
    counts = counts[: tf.reduce_max(tf.concat([lengths, [0]], axis=0))]
    return Packing(positions, counts, tf.cumsum(counts, exclusive=True))


def unpack(values: tf.Tensor, packing: Packing, batch: tf.Tensor, time: tf.Tensor) -> tf.Tensor:
    """Converts packed values [n, dim] to [batch, time, dim], with zeros at padding."""
    return tf.scatter_nd(packing.positions, values, [batch, time, tf.shape(values)[1]])


def by_rows(packing: Packing, time: tf.Tensor | int) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the order of packed positions by row and then by time, and the inverse order.

    `tf.gather(packed, order)` has the positions of the first row, then the second row, and so on.
    `tf.gather(by_row, inverse)` is packed again.

    Args:
      packing: Packing of n positions.
      time: Width of the padded batch.
    """
    keys = packing.positions[:, 0] * time + packing.positions[:, 1]
    order = tf.argsort(keys)
    return order, tf.math.invert_permutation(order)
