"""The first step of many clients at once.

All clients of a round start from the same weights, so one forward and one backward pass can serve
the first batches of many clients. Only the last products, which sum over a client's tokens to the
gradient of each weight, are made for each client:

    factors    u_n, v_n            for each token n of all clients, together
    gradient   1/N sum_n u_n^T v_n   for each client, over its own N tokens

A product of many rows takes less time than the products of its parts, and an operation of a
recurrence takes as long for 20 rows as for one.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import tensorflow as tf


class FirstStep(NamedTuple):
    """The result of a client's first batch of n tokens.

    Attributes:
      gradients: Gradients of the mean loss, in the order of `trainable_variables`; zeros if n is 0.
      losses: -log p of each target, in nats, [n].
      is_best: 1 where no id has a higher logit than the target, else 0, [n].
      is_bounded: Whether no number of the gradients can be larger than `LARGEST_GRADIENT`, or NaN;
        False if that is unknown. It is computed from the factors, which are much smaller than the
        gradients.
    """

    gradients: list[tf.Tensor]
    losses: tf.Tensor
    is_best: tf.Tensor
    is_bounded: tf.Tensor


LARGEST_GRADIENT = 1e30
_LARGEST_FACTOR = 1e12


def are_bounded(factors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns whether sums over up to a million products of two factors are at most 1e30.

    False for a factor that is NaN, for which no comparison holds.
    """
    checks = [tf.reduce_all(tf.abs(factor) <= _LARGEST_FACTOR) for factor in factors]
    return tf.reduce_all(tf.stack(checks))


class SharesFirstStep(Protocol):
    """A model whose first step can be computed for many clients at once."""

    def first_step_factors(
        self, weights: Sequence[tf.Tensor], batch: tf.Tensor
    ) -> Sequence[tf.Tensor]:
        """Returns tensors [tokens, ...] for the tokens of a batch, by row and then by time.

        Args:
          weights: The weights, in the order of `trainable_variables`.
          batch: int32 [rows, time + 1], padded on the right with PAD.
        """

    def first_step(self, factors: Sequence[tf.Tensor]) -> FirstStep:
        """Returns the result of one client, from the part of the factors for its tokens."""
