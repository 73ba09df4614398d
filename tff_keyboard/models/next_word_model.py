"""The interface of next-word models for training, evaluation and export.

Training needs the logits only at positions with a real target. A model therefore returns a hidden
vector per position and an output table (`recurrent_model.py`), so that the loss (`softmax_loss.py`)
never builds `[batch, time, vocabulary]` logits. A model without an output table returns its logits
in place of the hidden vectors, and None as its table (`keras_next_word_model.py`).
"""

import abc
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.models.layers.dropout import RATES
from tff_keyboard.storage.part_reference import PartSource


def with_word_rows(weight: np.ndarray, axes: Sequence[int], rows: np.ndarray) -> np.ndarray:
    """Returns a weight with the entries `rows` along the axes of words (`word_axes`)."""
    for axis in axes:
        weight = np.take(weight, rows, axis)
    return weight


class NextWordModel(tf.keras.Model, abc.ABC):
    """A language model over word ids.

    Ids are int32 in `[0, vocabulary_size)`. Sequences are padded with PAD **on the right**.

    Subclasses create all their weights in `__init__`, so `trainable_variables` is complete and in a
    fixed order at once. The values depend only on `seed` and the options.

        model = tff_keyboard.models.build_model("cifg", vocabulary_size=10_000, seed=1)
        logits = model(tf.constant([[BOS, 17, 5]]))  # [1, 3, 10_000]

    Attributes:
      vocabulary_size: Rows of the output, including special ids.
      state_size: Widths of the parts of the state.
      options: The keyword arguments that build this model again, in addition to `vocabulary_size`
        and `seed`; JSON values only.
      name_in_registry: A key of `models.MODELS`, or the reference of a user's model.
      source: The code of a user's model; None for a model of this package.
      is_private: Whether `load_model` read a model that was trained with privacy. `save_model`
        writes it again, so that exports use no text of its clients.
      continues_private_run: The same for a model that continues a private run.
    """

    name_in_registry: str
    source: PartSource | None = None
    is_private: bool = False
    continues_private_run: bool = False

    def __new__(cls, *args, **kwargs):
        # Keras's own `__new__` replaces the *base class of this class* by its TF1 version when a
        # model is built inside a `tf.Graph`, as in TFF. That would break models built earlier.
        return object.__new__(cls)

    def __init__(self, *, vocabulary_size: int, state_size: Sequence[int], options: dict[str, Any]):
        super().__init__(name="next_word_model")
        if vocabulary_size <= NUM_SPECIAL:
            raise ValueError(
                f"`vocabulary_size` must be > {NUM_SPECIAL} (the special ids), "
                f"got {vocabulary_size}."
            )
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
    def packed_hidden_at_targets(
        self, ids: tf.Tensor, targets: tf.Tensor, training: bool | None = None
    ) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor | None, tf.Tensor]:
        """Returns the inputs of a loss at the positions with a real target.

        Args:
          ids: [batch, time] int32.
          targets: [batch, time] int32, the next words, with PAD on the right; the `ids` at PAD are
            ignored.
          training: Whether dropout is on.

        Returns:
          `(hidden [n, dim], table [vocabulary, dim], bias [vocabulary] or None, targets [n])`, in
          an order that depends on `targets` only. If the table is None, `hidden` are the logits.
        """

    @abc.abstractmethod
    def hidden(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the hidden vectors [batch, time, dim] float32 of ids [batch, time]."""

    @abc.abstractmethod
    def logits(self, hidden: tf.Tensor) -> tf.Tensor:
        """Converts hidden vectors [..., dim] to logits [..., vocabulary].

        The logits are not normalised, and special ids are not masked.
        """

    @abc.abstractmethod
    def initial_state(self, batch_size: int | tf.Tensor) -> list[tf.Tensor]:
        """Returns the state before the first word, tensors [batch, ...]."""

    @abc.abstractmethod
    def advance(self, ids: tf.Tensor, state: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Reads one word per row. A PAD id does not change the state.

        Args:
          ids: [batch] int32.
          state: From `initial_state` or an earlier call.

        Returns:
          `(hidden [batch, dim], new state)`. The hidden vectors of rows that read PAD have no
          meaning.
        """

    @property
    @abc.abstractmethod
    def word_axes(self) -> list[tuple[int, ...]]:
        """For each of `trainable_variables`, the axes with one entry for each word."""

    def score(self, ids: tf.Tensor, targets: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns packed `(logits [n, vocabulary], targets [n])` at the real targets of a batch."""
        hidden, _, _, targets = self.packed_hidden_at_targets(ids, targets)
        return self.logits(hidden), targets

    def call(self, ids: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Converts ids [batch, time] to logits [batch, time, vocabulary]."""
        return self.logits(self.hidden(ids, training))

    def step(self, ids: tf.Tensor, state: list[tf.Tensor]) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Reads one word per row and scores the next. A PAD id does not change the state.

        Args:
          ids: [batch] int32.
          state: From `initial_state` or an earlier `step`.

        Returns:
          `(logits [batch, vocabulary], new state)`. The logits of rows that read PAD have no
          meaning.
        """
        hidden, state = self.advance(ids, state)
        return self.logits(hidden), state
