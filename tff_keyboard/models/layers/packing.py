"""Packed sequences: real positions only, in the order a recurrence visits them.

A batch of messages padded to the longest is half padding. Sorted by length, the rows still running
at step t are the first `counts[t]`, so a batch can be stored as one matrix

    [rows of step 0; rows of step 1; ...]        step t begins at row `starts[t]`

with no padding: products over all positions, elementwise sweeps and the steps themselves touch
real positions only. The same idea as cuDNN's and PyTorch's packed sequences.
"""

from typing import NamedTuple

import tensorflow as tf


class Packing(NamedTuple):
    """Where each packed row comes from."""

    positions: tf.Tensor  # [n, 2] int32, (row, time) in the padded batch of each packed position
    counts: tf.Tensor  # [steps] int32, rows of each step, not increasing; every count is > 0
    starts: tf.Tensor  # [steps] int32, where each step begins


def pack(lengths: tf.Tensor, time: tf.Tensor | int) -> Packing:
    """The packing of a batch: `lengths` [batch] int32 >= 0 real positions come first in each row.

    `time` is the width of the padded batch, >= every length.
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
    """[n, dim] packed -> [batch, time, dim], zeros at padding."""
    return tf.scatter_nd(packing.positions, values, [batch, time, tf.shape(values)[1]])
