"""The interface of next-word models for training, evaluation and export.

A model maps word ids to a hidden vector per position and multiplies that vector with an output
table. Because the two steps are separate, the loss (`softmax_loss.py`) can skip padding and never
builds `[batch, time, vocabulary]` logits.
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import tensorflow as tf

from tff_keyboard.data.vocabulary import NUM_SPECIAL, PAD
from tff_keyboard.models.layers.dropout import RATES
from tff_keyboard.models.layers.packing import Packing, pack, unpack
from tff_keyboard.storage.checks import at_least


class NextWordModel(tf.keras.Model, abc.ABC):
    """A recurrent language model over word ids.

    Ids are int32 in `[0, vocabulary_size)`. Sequences are padded with PAD **on the right**; the
    hidden vectors of padding are zero.

    Subclasses create all their weights in `__init__`, so `trainable_variables` is complete and in a
    fixed order at once. The values depend only on `seed` and the options.

        model = tff_keyboard.models.build_model("cifg", vocabulary_size=10_000, seed=1)
        logits = model(tf.constant([[BOS, 17, 5]]))  # [1, 3, 10_000]

    Attributes:
      vocabulary_size: Rows of the output table, including special ids.
      state_size: Widths of the parts of the recurrent state.
      options: The keyword arguments that build this model again, in addition to `vocabulary_size`
        and `seed`; JSON values only.
    """

    name_in_registry: ClassVar[str]

    def __new__(cls, *args, **kwargs):
        # Keras's own `__new__` replaces the *base class of this class* by its TF1 version when a
        # model is built inside a `tf.Graph`, as in TFF. That would break models built earlier.
        return object.__new__(cls)

    def __init__(self, *, vocabulary_size: int, state_size: Sequence[int], options: dict[str, Any]):
        super().__init__(name=self.name_in_registry)
        if vocabulary_size <= NUM_SPECIAL:
            raise ValueError(
                f"`vocabulary_size` must be > {NUM_SPECIAL} (the special ids), "
                f"got {vocabulary_size}."
            )
        for name in ("units", "embedding_size"):
            if name in options:
                at_least(1).check(f"model.{name}", options[name])
        self.vocabulary_size = int(vocabulary_size)
        self.state_size = [int(size) for size in state_size]
        self.options = dict(options)
        self.built = True  # subclasses create their weights in `__init__`

    @property
    def architecture(self) -> tuple[str, dict[str, Any]]:
        """Name and options that must be equal for weights to fit. Dropout rates may differ."""
        sizes = {name: value for name, value in self.options.items() if name not in RATES}
        return self.name_in_registry, sizes

    @property
    def shares_first_step(self) -> bool:
        """Whether this instance has the methods of `first_step.SharesFirstStep`."""
        return False

    @abc.abstractmethod
    def packed_hidden_and_table(
        self, ids: tf.Tensor, packing: Packing, training: bool | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Returns hidden vectors at packed positions and the output table, for a loss.

        The table comes through the same differentiable expression as the embedding lookup, so that
        the two gradients of a tied model are summed once, densely.

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

    def packed_hidden_at_targets(
        self, ids: tf.Tensor, targets: tf.Tensor, training: bool | None = None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None, tf.Tensor]:
        """Returns the inputs of a loss at the positions with a real target.

        Args:
          ids: [batch, time] int32.
          targets: [batch, time] int32, the next words, with PAD on the right; the `ids` at PAD are
            ignored.
          training: Whether dropout is on.

        Returns:
          `(hidden [n, dim], table, bias or None, targets [n])`, in packed order.
        """
        lengths = tf.math.count_nonzero(tf.not_equal(targets, PAD), axis=1, dtype=tf.int32)
        packing = pack(lengths, tf.shape(ids)[1])
        hidden, table, bias = self.packed_hidden_and_table(ids, packing, training)
        return hidden, table, bias, tf.gather_nd(targets, packing.positions)

    def score(self, ids: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns packed `(logits [n, vocabulary], targets [n])` at the real targets of a batch."""
        hidden, _, _, targets = self.packed_hidden_at_targets(ids, targets)
        return self.logits(hidden), targets

    def hidden(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the hidden vectors [batch, time, dim] float32 of ids [batch, time]."""
        batch, time = tf.unstack(tf.shape(ids))
        packing = pack(tf.math.count_nonzero(tf.not_equal(ids, PAD), axis=1, dtype=tf.int32), time)
        hidden, _, _ = self.packed_hidden_and_table(ids, packing, training)
        return unpack(hidden, packing, batch, time)

    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """Converts hidden vectors [..., dim] to logits [..., vocabulary].

        The logits are not normalised, and special ids are not masked.
        """
        table, bias = self.output_table
        rows = tf.reshape(hidden, [-1, table.shape[1]])
        logits = tf.matmul(rows, table, transpose_b=True)
        if bias is not None:
            logits += bias
        return tf.reshape(logits, tf.concat([tf.shape(hidden)[:-1], [self.vocabulary_size]], 0))

    def call(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Converts ids [batch, time] to logits [batch, time, vocabulary]."""
        return self.logits(self.hidden(ids, training))

    def initial_state(self, batch_size: int | tf.Tensor) -> list[tf.Tensor]:
        """Returns the state before the first word: zeros, [batch, n] for each n in `state_size`."""
        return [tf.zeros([batch_size, size]) for size in self.state_size]

    def step(self, ids: tf.Tensor, state: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Reads one word per row and scores the next. A PAD id does not change the state.

        Args:
          ids: [batch] int32.
          state: [batch, n] float32 each, from `initial_state` or an earlier `step`.

        Returns:
          `(logits [batch, vocabulary], new state)`. The logits of rows that read PAD have no
          meaning.
        """
        hidden, stepped = self.step_hidden(self.embed(ids), state)
        is_word = tf.not_equal(ids, PAD)[:, tf.newaxis]
        kept = [tf.where(is_word, new, old) for new, old in zip(stepped, state, strict=True)]
        return self.logits(hidden), kept
