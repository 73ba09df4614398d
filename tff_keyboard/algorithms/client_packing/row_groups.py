"""Computes the row work of a pack (`execution/row_work.py`) for groups of its clients.

A client's rows are its first batch. A group is the next clients of the pack whose first batches
have at most `_CELLS` cells together, at least one client.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import tensorflow as tf

from tff_keyboard.execution.graph_piece import RowWork

# Cells of the padded batches of a group. More cells are faster, until the probabilities of their
# words (40 kB for each cell) leave the cache or fill the memory.
_CELLS = 1024


class Group(NamedTuple):
    """The results of a group of clients.

    Attributes:
      end: Position after the last client of the group in the pack.
      results: Tensors by name, [results of all clients of the group, ...].
      starts: First result of each client of the pack, [clients + 1] int32, if the first client of
        the group begins at `offset`.
      offset: See `starts`.
    """

    end: tf.Tensor
    results: Mapping[str, tf.Tensor]
    starts: tf.Tensor
    offset: tf.Tensor

    def results_of(self, client: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the results of a client by name."""
        cut = slice(self.starts[client] - self.offset, self.starts[client + 1] - self.offset)
        return {name: result[cut] for name, result in self.results.items()}


class RowGroups:
    """Cuts a pack of joined batches (`data/elements.py`) into groups.

    Args:
      row_work: The work.
      leaves: The pack's `(values, shapes)` of the two leaves of joined batches, in the order of
        `tf.nest`: the shapes of the batches, and their numbers.
      feeds: Tensors by name that all clients share.
      max_cells: Most cells of a group.
    """

    def __init__(
        self,
        row_work: RowWork,
        leaves: Sequence[tuple[tf.Tensor, tf.Tensor]],
        feeds: Mapping[str, tf.Tensor],
        max_cells: int | None = None,
    ):
        self._row_work, self._feeds = row_work, feeds
        self._max_cells = max_cells or _CELLS
        (batch_shapes, sizes_of_shapes), (self._values, value_shapes) = leaves
        num_batches = sizes_of_shapes[:, 0]
        first_shape = tf.cumsum(num_batches * 2, exclusive=True)
        # A client without batches has no rows. Two zeros keep the positions valid.
        sizes = tf.concat([batch_shapes, tf.zeros([2], batch_shapes.dtype)], 0)
        has_rows = tf.cast(num_batches > 0, sizes.dtype)
        self._rows = tf.cast(tf.gather(sizes, first_shape) * has_rows, tf.int32)  # [clients]
        self._widths = tf.cast(tf.gather(sizes, first_shape + 1) * has_rows, tf.int32)
        self._begins = tf.cast(tf.cumsum(value_shapes[:, 0], exclusive=True), tf.int32)
        self._cells = tf.cumsum(self._rows * self._widths)
        self._starts = self._find_starts()

    def group(self, first: tf.Tensor) -> Group:
        """Computes the results of the group whose first client is at position `first`."""
        before = tf.concat([[0], self._cells], 0)[first]
        end = tf.searchsorted(
            self._cells, [before + self._max_cells], side="right", out_type=tf.int32
        )[0]
        end = tf.maximum(end, first + 1)
        rows = self._padded(slice(first, end))
        results = self._row_work({**self._feeds, self._row_work.rows: rows})
        results_by_name = dict(zip(self._row_work.results, results, strict=True))
        return Group(end, results_by_name, self._starts, self._starts[first])

    def _padded(self, clients: slice) -> tf.Tensor:
        """Returns the first batches of some clients as one, padded on the right with 0."""
        rows, widths = self._rows[clients], self._widths[clients]
        width = tf.repeat(widths, rows)  # [rows of all clients]
        row = tf.range(tf.size(width)) - tf.repeat(tf.cumsum(rows, exclusive=True), rows)
        begin = tf.repeat(self._begins[clients], rows) + row * width
        column = tf.range(tf.reduce_max(tf.concat([widths, [1]], 0)))
        cells = begin[:, tf.newaxis] + column
        is_in_row = column < width[:, tf.newaxis]
        last = tf.maximum(tf.size(self._values) - 1, 0)
        return tf.where(is_in_row, tf.gather(self._values, tf.minimum(cells, last)), 0)

    def _find_starts(self) -> tf.Tensor:
        """Returns where each client's results begin in the results of the pack.

        The result is int32 [clients + 1]; its last entry is the number of all results. A row has
        one result for each target, that is, for each number other than 0 after its first
        (`row_work.of_rows`).
        """
        # The targets of a client's first batch: cells other than 0 outside of the first column.
        rows, widths = self._rows, self._widths
        cells = rows * widths
        client = tf.repeat(tf.range(tf.size(rows)), cells)
        cell = tf.range(tf.size(client)) - tf.repeat(tf.cumsum(cells, exclusive=True), cells)
        value = tf.gather(self._values, tf.gather(self._begins, client) + cell)
        # Not `!=`, which compares objects in a plain graph.
        is_target = tf.not_equal(value, 0) & (cell % tf.gather(widths, client) > 0)
        counts = tf.math.unsorted_segment_sum(tf.cast(is_target, tf.int32), client, tf.size(rows))
        return tf.concat([[0], tf.cumsum(counts)], 0)
