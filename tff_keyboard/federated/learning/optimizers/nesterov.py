"""SGD with Nesterov momentum, as a TFF optimizer.

    v <- m v + g;    w <- w - lr (g + m v)

The server optimizer of Hard et al. 2018 (section 5.2: lr 1.0, momentum 0.9), where g is the
weighted mean of client deltas w_server - w_client. TFF ships heavy-ball momentum only.
Sources: Hard et al. 2018, https://arxiv.org/abs/1811.03604; Sutskever et al. 2013, eqs. 3-4, in
the look-ahead form that TensorFlow's `use_nesterov` computes.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

LEARNING_RATE = "learning_rate"
MOMENTUM = "momentum"
ACCUMULATOR = "accumulator"


class NesterovSGD(tff.learning.optimizers.Optimizer):
    """Nesterov momentum; `learning_rate` > 0 and `momentum` in [0, 1) live in the state.

    State: `learning_rate` and `momentum` (float32 scalars, readable and settable as
    hyperparameters) and `accumulator`, the velocity v with the structure of the weights.
    """

    def __init__(self, learning_rate: float, momentum: float):
        if learning_rate <= 0:
            raise ValueError(f"`learning_rate` must be > 0, got {learning_rate}.")
        if not 0 <= momentum < 1:
            raise ValueError(f"`momentum` must be in [0, 1), got {momentum}.")
        self._learning_rate = learning_rate
        self._momentum = momentum

    def initialize(self, specs: Any) -> collections.OrderedDict:
        return collections.OrderedDict(
            {
                LEARNING_RATE: tf.constant(self._learning_rate, tf.float32),
                MOMENTUM: tf.constant(self._momentum, tf.float32),
                ACCUMULATOR: tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs),
            }
        )

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        learning_rate, momentum = state[LEARNING_RATE], state[MOMENTUM]
        velocity = tf.nest.map_structure(
            lambda v, g: v if g is None else momentum * v + g, state[ACCUMULATOR], gradients
        )
        updated = tf.nest.map_structure(
            lambda w, v, g: w if g is None else w - learning_rate * (g + momentum * v),
            weights,
            velocity,
            gradients,
        )
        new_state = collections.OrderedDict(
            {LEARNING_RATE: learning_rate, MOMENTUM: momentum, ACCUMULATOR: velocity}
        )
        return new_state, updated

    def get_hparams(self, state: Any) -> collections.OrderedDict:
        return collections.OrderedDict((k, state[k]) for k in (LEARNING_RATE, MOMENTUM))

    def set_hparams(self, state: Any, hparams: Any) -> collections.OrderedDict:
        return collections.OrderedDict(
            {
                LEARNING_RATE: hparams[LEARNING_RATE],
                MOMENTUM: hparams[MOMENTUM],
                ACCUMULATOR: state[ACCUMULATOR],
            }
        )
