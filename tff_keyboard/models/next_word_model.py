"""The one interface of a next-word model: training, evaluation and export all use it.

A model maps word ids to a hidden vector per position and multiplies that vector with an output
table. Keeping the two apart lets the loss (`softmax_loss.py`) touch real tokens only and never
build `[batch, time, vocabulary]` logits.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tff_keyboard.data.vocabulary import NUM_SPECIAL, PAD
from tff_keyboard.models.layers.dropout import RATES
from tff_keyboard.models.layers.packing import Packing, pack, unpack


class NextWordModel(tf.keras.Model, abc.ABC):
    """A recurrent language model over word ids.

    Ids are int32 in `[0, vocabulary_size)`. Sequences are padded with PAD **on the right**; hidden
    vectors there are zero.

    Subclasses create all their weights in `__init__`, so `trainable_variables` is complete and in
    a fixed order at once, and the values depend on `seed` and the options alone.

    Attributes:
      vocabulary_size: Rows of the output table, special ids included.
      state_size: Widths of the recurrent state's parts.
      options: The keyword arguments beside `vocabulary_size` and `seed` that build this model
        again; JSON values only.
    """

    name_in_registry: ClassVar[str]

    def __new__(cls, *args, **kwargs):
        # Keras's own `__new__` exchanges the *base class of this class* for its TF1 twin when a
        # model is built inside a `tf.Graph`, which TFF does: models built earlier would break.
        return object.__new__(cls)

    def __init__(self, *, vocabulary_size: int, state_size: Sequence[int], options: dict[str, Any]):
        super().__init__(name=self.name_in_registry)
        if vocabulary_size <= NUM_SPECIAL:
            raise ValueError(
                f"`vocabulary_size` must be > {NUM_SPECIAL} (the special ids), "
                f"got {vocabulary_size}."
            )
        self.vocabulary_size = int(vocabulary_size)
        self.state_size = [int(size) for size in state_size]
        self.options = dict(options)
        self.built = True  # subclasses create their weights at once

    @property
    def architecture(self) -> tuple[str, dict[str, Any]]:
        """What must be equal for weights to fit; dropout and rounding may differ."""
        differing = (*RATES, "int4_rows")
        sizes = {name: value for name, value in self.options.items() if name not in differing}
        return self.name_in_registry, sizes

    @abc.abstractmethod
    def packed_hidden_and_table(
        self, ids: tf.Tensor, packing: Packing, training: bool | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Hidden vectors at packed positions and the output table, for a loss that multiplies them.

        The table comes through the same differentiable expression as the embedding lookup, so
        that a tied model's two gradients are summed once, densely.

        Args:
          ids: [batch, time] int32.
          packing: Packing of n positions of `ids`.
          training: Whether dropout is on.

        Returns:
          `(hidden [n, dim], table [vocabulary, dim], bias [vocabulary] or None)`.
        """

    @property
    @abc.abstractmethod
    def output_table(self) -> tuple[tf.Variable, tf.Variable | None]:
        """`(table [vocabulary, dim], bias [vocabulary] or None)`."""

    @abc.abstractmethod
    def embed(self, ids: tf.Tensor) -> tf.Tensor:
        """Input vectors [..., embedding] of ids [...]."""

    @abc.abstractmethod
    def step_hidden(
        self, inputs: tf.Tensor, state: list[tf.Tensor]
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """The cell's equations for one position, as in the paper: `(hidden [batch, dim], state)`.

        `inputs` are [batch, embedding] from `embed`; states are as `initial_state` returns them.
        """

    def packed_hidden_at_targets(
        self, ids: tf.Tensor, targets: tf.Tensor, training: bool | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None, tf.Tensor]:
        """Everything a loss needs at the positions that have a real target.

        Args:
          ids: [batch, time] int32.
          targets: [batch, time] int32, what follows; PAD on the right, where `ids` may hold
            anything.
          training: Whether dropout is on.

        Returns:
          `(hidden [n, dim], table, bias or None, targets [n])`, in packed order.
        """
        lengths = tf.math.count_nonzero(tf.not_equal(targets, PAD), axis=1, dtype=tf.int32)
        packing = pack(lengths, tf.shape(ids)[1])
        hidden, table, bias = self.packed_hidden_and_table(ids, packing, training)
        return hidden, table, bias, tf.gather_nd(targets, packing.positions)

    def score(self, ids: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """`(logits [n, vocabulary], targets [n])` at every real target of a batch, packed."""
        hidden, _, _, targets = self.packed_hidden_at_targets(ids, targets)
        return self.logits(hidden), targets

    def hidden(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """What the output table multiplies: ids [batch, time] -> [batch, time, dim] float32."""
        batch, time = tf.unstack(tf.shape(ids))
        packing = pack(tf.math.count_nonzero(tf.not_equal(ids, PAD), axis=1, dtype=tf.int32), time)
        hidden, _, _ = self.packed_hidden_and_table(ids, packing, training)
        return unpack(hidden, packing, batch, time)

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """[..., dim] -> [..., vocabulary], not normalised, special ids not masked."""
        table, bias = self.output_table
        rows = tf.reshape(hidden, [-1, table.shape[1]])
        logits = tf.matmul(rows, table, transpose_b=True)
        if bias is not None:
            logits += bias
        return tf.reshape(logits, tf.concat([tf.shape(hidden)[:-1], [self.vocabulary_size]], 0))

    def call(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """ids [batch, time] -> logits [batch, time, vocabulary]."""
        return self.logits(self.hidden(ids, training))

    def initial_state(self, batch_size: int | tf.Tensor) -> list[tf.Tensor]:
        """The state before the first word: zeros, [batch, n] for each n in `state_size`."""
        return [tf.zeros([batch_size, size]) for size in self.state_size]

    def step(self, ids: tf.Tensor, state: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Reads one word per row and scores the next; a PAD id leaves the state alone.

        `ids` are [batch] int32; `state` [batch, n] float32 is from `initial_state` or an earlier
        `step`. The result is `(logits [batch, vocabulary], new state)`. Logits of a row that read
        PAD are those of a step from its unchanged state on PAD's own vector, and mean nothing.
        """
        hidden, stepped = self.step_hidden(self.embed(ids), state)
        is_word = tf.not_equal(ids, PAD)[:, tf.newaxis]
        kept = [tf.where(is_word, new, old) for new, old in zip(stepped, state, strict=True)]
        return self.logits(hidden), kept
