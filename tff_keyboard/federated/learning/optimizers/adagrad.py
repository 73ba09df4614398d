"""Adagrad with epsilon outside the root, as a TFF optimizer.

    v <- v + g^2;    w <- w - lr g / (sqrt(v) + epsilon)

This is FedAdagrad of Reddi et al. 2021 (Algorithm 2, with beta_1 = 0), whose tau is epsilon, and
what their tuned values are for. TFF's own `build_adagrad` takes sqrt(v + epsilon): at 1e-4 it would
behave as tau = 1e-2. TFF's Adam and Yogi have theirs outside, as the paper.
Source: https://arxiv.org/abs/2003.00295; Duchi et al. 2011.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

LEARNING_RATE = "learning_rate"
EPSILON = "epsilon"
SQUARES = "preconditioner"


class Adagrad(tff.learning.optimizers.Optimizer):
    """Adagrad from an accumulator of 0.

    State: `learning_rate` and `epsilon` (float32 scalars, hyperparameters) and `preconditioner`,
    the sum v of squared gradients with the structure of the weights. A coordinate that never had a
    gradient stays where it is.

    Args:
      learning_rate: Step size, > 0.
      epsilon: Constant in the denominator, > 0.
    """

    def __init__(self, learning_rate: float, epsilon: float):
        if learning_rate <= 0:
            raise ValueError(f"`learning_rate` must be > 0, got {learning_rate}.")
        if epsilon <= 0:
            raise ValueError(f"`epsilon` must be > 0, got {epsilon}.")
        self._learning_rate = learning_rate
        self._epsilon = epsilon

    def initialize(self, specs: Any) -> collections.OrderedDict:
        return collections.OrderedDict(
            {
                LEARNING_RATE: tf.constant(self._learning_rate, tf.float32),
                EPSILON: tf.constant(self._epsilon, tf.float32),
                SQUARES: tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs),
            }
        )

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        squares = tf.nest.map_structure(
            lambda v, g: v if g is None else v + tf.square(g), state[SQUARES], gradients
        )
        updated = tf.nest.map_structure(
            lambda w, v, g: (
                w if g is None else w - state[LEARNING_RATE] * g / (tf.sqrt(v) + state[EPSILON])
            ),
            weights,
            squares,
            gradients,
        )
        return collections.OrderedDict(state, **{SQUARES: squares}), updated

    def get_hparams(self, state: Any) -> collections.OrderedDict:
        return collections.OrderedDict((k, state[k]) for k in (LEARNING_RATE, EPSILON))

    def set_hparams(self, state: Any, hparams: Any) -> collections.OrderedDict:
        return collections.OrderedDict(
            {
                LEARNING_RATE: hparams[LEARNING_RATE],
                EPSILON: hparams[EPSILON],
                SQUARES: state[SQUARES],
            }
        )
