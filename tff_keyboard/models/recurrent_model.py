"""A recurrent model: word vectors, a cell that reads one word per step, and an output table.

A new model is its step equations only:

    x_t = embed(w_t);   (h_t, s_t) = step_hidden(x_t, s_{t-1});   logits_t = T h_t + b

TensorFlow differentiates the loop over time (`layers/scan.py`). A model may bring a gradient that
is written by hand (`layers/recurrence.py`): it overrides `packed_hidden_and_table`, and gives the
same values in less time.
"""

import abc
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models.layers import scan
from tff_keyboard.models.layers.packing import Packing, pack, unpack
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.storage.checks import at_least


class RecurrentModel(NextWordModel):
    """A recurrent language model over word ids.

        class MyCell(tff_keyboard.models.RecurrentModel):
            name_in_registry = "my_cell"

            def __init__(self, *, vocabulary_size, seed, units=64):
                super().__init__(
                    vocabulary_size=vocabulary_size, state_size=[units], options={"units": units}
                )
                ...  # all weights, with `self.add_weight`

    The state starts with zeros. The hidden vectors of padding are zero.
    """

    def __init__(self, *, vocabulary_size: int, state_size: Sequence[int], options: dict[str, Any]):
        super().__init__(vocabulary_size=vocabulary_size, state_size=state_size, options=options)
        for name in ("units", "embedding_size"):
            if name in options:
                at_least(1).check(f"model.{name}", options[name])

    @property
    @abc.abstractmethod
    def output_table(self) -> tuple[tf.Variable, tf.Variable | None]:
        """`(table [vocabulary, dim], bias [vocabulary] or None)`."""

    @abc.abstractmethod
    def embed(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns the input vectors [..., embedding] of ids [...]."""

    @abc.abstractmethod
    def step_hidden(
        self, inputs: tf.Tensor, state: list[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Computes the cell's equations for one position, as in the paper.

        Args:
          inputs: [batch, embedding] from `embed`.
          state: As returned by `initial_state`.

        Returns:
          `(hidden [batch, dim], new state)`.
        """

    def packed_hidden_and_table(
        self, ids: tf.Tensor, packing: Packing, training: bool | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Returns hidden vectors at packed positions and the output table, for a loss.

        This default computes `step_hidden` in a loop over time that TensorFlow differentiates, and
        has no dropout.

        Args:
          ids: [batch, time] int32.
          packing: Packing of n positions of `ids`.
          training: Whether dropout is on.

        Returns:
          `(hidden [n, dim], table [vocabulary, dim], bias [vocabulary] or None)`.
        """
        del training
        table, bias = self.output_table
        inputs = self.embed(tf.gather_nd(ids, packing.positions))
        hidden = scan.run(self.step_hidden, inputs, self.state_size, table.shape[1], packing)
        return (
            hidden,
            tf.convert_to_tensor(table),
            None if bias is None else tf.convert_to_tensor(bias),
        )

    def packed_hidden_at_targets(self, ids, targets, training=None):
        lengths = tf.math.count_nonzero(tf.not_equal(targets, PAD), axis=1, dtype=tf.int32)
        packing = pack(lengths, tf.shape(ids)[1])
        hidden, table, bias = self.packed_hidden_and_table(ids, packing, training)
        return hidden, table, bias, tf.gather_nd(targets, packing.positions)

    def hidden(self, ids, training=None):
        batch, time = tf.unstack(tf.shape(ids))
        packing = pack(tf.math.count_nonzero(tf.not_equal(ids, PAD), axis=1, dtype=tf.int32), time)
        hidden, _, _ = self.packed_hidden_and_table(ids, packing, training)
        return unpack(hidden, packing, batch, time)

    def logits(self, hidden):
        table, bias = self.output_table
        rows = tf.reshape(hidden, [-1, table.shape[1]])
        logits = tf.matmul(rows, table, transpose_b=True)
        if bias is not None:
            logits += bias
        return tf.reshape(logits, tf.concat([tf.shape(hidden)[:-1], [self.vocabulary_size]], 0))

    def initial_state(self, batch_size):
        return [tf.zeros([batch_size, size]) for size in self.state_size]

    def advance(self, ids, state):
        hidden, stepped = self.step_hidden(self.embed(ids), state)
        is_word = tf.not_equal(ids, PAD)[:, tf.newaxis]
        new_state = [tf.where(is_word, new, old) for new, old in zip(stepped, state, strict=True)]
        return hidden, new_state

    @property
    def word_axes(self):
        """The first axis of each weight with one row for each word.

        Overwrite it if another axis of a weight may have `vocabulary_size` entries.
        """
        table, bias = self.output_table
        of_words = [getattr(self, "embedding", None), table, bias]
        return [
            (0,) if any(variable is part for part in of_words) else ()
            for variable in self.trainable_variables
        ]
