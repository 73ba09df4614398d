"""Adagrad and Nesterov momentum as TFF optimizers, with one accumulator and two hyperparameters.

    Adagrad    v <- v + g^2;      w <- w - lr g / (sqrt(v) + epsilon)
    Nesterov   v <- m v + g;      w <- w - lr (g + m v)

Adagrad is FedAdagrad of Reddi et al. 2021 (Algorithm 2, with beta_1 = 0). Their tau is epsilon, and
their tuned values hold for this form. TFF's own `build_adagrad` takes sqrt(v + epsilon): at 1e-4 it
would behave as tau = 1e-2. TFF's Adam and Yogi add epsilon outside the root, as the paper does.

Nesterov momentum is the server optimizer of Hard et al. 2018 (section 5.2: lr 1.0, momentum 0.9),
where g is the weighted mean of client updates w_server - w_client. TFF has only heavy-ball
momentum.

Sources: https://arxiv.org/abs/2003.00295, Duchi et al. 2011; https://arxiv.org/abs/1811.03604,
Sutskever et al. 2013, eqs. 3-4, in the look-ahead form that TensorFlow's `use_nesterov` computes.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

LEARNING_RATE = "learning_rate"


class _Accumulating(tff.learning.optimizers.Optimizer):
    """An optimizer with float32 hyperparameters and an accumulator shaped like the weights."""

    _ACCUMULATOR: str

    def __init__(self, **hparams: float):
        if hparams[LEARNING_RATE] <= 0:
            raise ValueError(f"`{LEARNING_RATE}` must be > 0, got {hparams[LEARNING_RATE]}.")
        self._hparams = hparams

    def initialize(self, specs: Any) -> collections.OrderedDict:
        state = {name: tf.constant(value, tf.float32) for name, value in self._hparams.items()}
        zeros = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs)
        return collections.OrderedDict(state, **{self._ACCUMULATOR: zeros})

    def get_hparams(self, state: Any) -> collections.OrderedDict:
        return collections.OrderedDict((name, state[name]) for name in self._hparams)

    def set_hparams(self, state: Any, hparams: Any) -> collections.OrderedDict:
        return collections.OrderedDict((k, hparams.get(k, state[k])) for k in state)


class AdagradOptimizer(_Accumulating):
    """Adagrad from an accumulator of 0, with `learning_rate` > 0.

    State: `learning_rate` and `epsilon` (hyperparameters) and `preconditioner`, v. A coordinate
    that never had a gradient does not change. `epsilon` > 0 is the constant in the denominator.
    """

    _ACCUMULATOR = "preconditioner"

    def __init__(self, learning_rate: float, epsilon: float):
        if epsilon <= 0:
            raise ValueError(f"`epsilon` must be > 0, got {epsilon}.")
        super().__init__(learning_rate=learning_rate, epsilon=epsilon)

    @tf.autograph.experimental.do_not_convert
    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        rate, epsilon = state[LEARNING_RATE], state["epsilon"]
        squares = tf.nest.map_structure(
            lambda v, g: v if g is None else v + tf.square(g), state[self._ACCUMULATOR], gradients
        )
        updated = tf.nest.map_structure(
            lambda w, v, g: w if g is None else w - rate * g / (tf.sqrt(v) + epsilon),
            weights,
            squares,
            gradients,
        )
        return collections.OrderedDict(state, **{self._ACCUMULATOR: squares}), updated


class NesterovSGD(_Accumulating):
    """Nesterov momentum, with `learning_rate` > 0 and `momentum` in [0, 1).

    State: both (hyperparameters) and `accumulator`, the velocity v.
    """

    _ACCUMULATOR = "accumulator"

    def __init__(self, learning_rate: float, momentum: float):
        if not 0 <= momentum < 1:
            raise ValueError(f"`momentum` must be in [0, 1), got {momentum}.")
        super().__init__(learning_rate=learning_rate, momentum=momentum)

    @tf.autograph.experimental.do_not_convert
    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        rate, momentum = state[LEARNING_RATE], state["momentum"]
        velocity = tf.nest.map_structure(
            lambda v, g: v if g is None else momentum * v + g, state[self._ACCUMULATOR], gradients
        )
        updated = tf.nest.map_structure(
            lambda w, v, g: w if g is None else w - rate * (g + momentum * v),
            weights,
            velocity,
            gradients,
        )
        return collections.OrderedDict(state, **{self._ACCUMULATOR: velocity}), updated
