"""Stochastic gradient descent with a bounded gradient, in one pass over weights and gradients.

    w <- w - r min(1, c / ||g||_2) g,    the norm over all tensors of the gradient together

The bound scales the rate and not the gradient, so only the weights are written. `tff.learning`'s
SGD inside `ClippedOptimizer` takes four passes. A norm of NaN leaves the rate unchanged, so that
the update guard sees the NaN. An infinite norm makes the rate 0.

Source of the bound: Pascanu et al. 2013, Algorithm 1, https://arxiv.org/abs/1211.5063.
"""

import collections
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

_RATE = "learning_rate"


class LocalSgd(tff.learning.optimizers.Optimizer):
    """SGD whose state is its rate. A variable without a gradient does not change.

    `clip_norm` is c > 0; None does not clip.
    """

    def __init__(self, learning_rate: float, clip_norm: float | None = None):
        if not learning_rate > 0:
            raise ValueError(f"`learning_rate` must be > 0, got {learning_rate}.")
        if clip_norm is not None and not clip_norm > 0:
            raise ValueError(f"`clip_norm` must be > 0, got {clip_norm}.")
        self._learning_rate = learning_rate
        self._clip_norm = clip_norm

    def initialize(self, specs: Any) -> Any:
        del specs
        return collections.OrderedDict([(_RATE, self._learning_rate)])

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        steps = self.steps(state, gradients)
        updated = tf.nest.map_structure(lambda w, s: w if s is None else w - s, weights, steps)
        return state, updated

    def steps(self, state: Any, gradients: Any) -> Any:
        """Returns the steps that `next` subtracts from the weights; None for a gradient of None."""
        rate = self._rate(state, tf.nest.flatten(gradients))
        return tf.nest.map_structure(lambda g: None if g is None else rate * g, gradients)

    def is_finite_step_of(self, state: Any, largest: float) -> tf.Tensor:
        """Returns whether the steps of all gradients up to `largest` are finite."""
        return tf.math.is_finite(tf.cast(state[_RATE], tf.float32) * largest)

    def update(
        self, state: Any, variables: Sequence[tf.Variable], gradients: Sequence[tf.Tensor | None]
    ) -> Any:
        """Changes `variables` to the same bits as `next` would, and returns the new state."""
        rate = self._rate(state, gradients)
        for variable, gradient in zip(variables, gradients, strict=True):
            if gradient is not None:
                tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=rate, delta=tf.convert_to_tensor(gradient)
                )
        return state

    def _rate(self, state: Any, gradients: Sequence[tf.Tensor | None]) -> tf.Tensor:
        rate = tf.cast(state[_RATE], tf.float32)
        if self._clip_norm is None:
            return rate
        norm = _norm(gradients)
        return rate * tf.where(norm > self._clip_norm, self._clip_norm / norm, 1.0)

    def get_hparams(self, state: Any) -> Any:
        return collections.OrderedDict([(_RATE, state[_RATE])])

    def set_hparams(self, state: Any, hparams: Any) -> Any:
        del state
        return collections.OrderedDict([(_RATE, hparams[_RATE])])


class ClippedOptimizer(tff.learning.optimizers.Optimizer):
    """Clips the whole gradient to the L2 norm `clip_norm` > 0, then calls `inner`.

    State and hyperparameters are those of `inner`.
    """

    def __init__(self, inner: tff.learning.optimizers.Optimizer, clip_norm: float):
        if not clip_norm > 0:
            raise ValueError(f"`clip_norm` must be > 0, got {clip_norm}.")
        self._inner = inner
        self._clip_norm = clip_norm

    def initialize(self, specs: Any) -> Any:
        return self._inner.initialize(specs)

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        # A norm of NaN leaves the gradient unchanged, so that the update guard sees it.
        norm = _norm(tf.nest.flatten(gradients))
        scale = tf.where(norm > self._clip_norm, self._clip_norm / norm, 1.0)
        clipped = tf.nest.map_structure(lambda g: None if g is None else g * scale, gradients)
        return self._inner.next(state, weights, clipped)

    def get_hparams(self, state: Any) -> Any:
        return self._inner.get_hparams(state)

    def set_hparams(self, state: Any, hparams: Any) -> Any:
        return self._inner.set_hparams(state, hparams)


def _norm(gradients: Sequence[Any]) -> tf.Tensor:
    """Returns the L2 norm of all gradients together; None counts as zeros.

    TensorFlow's own norm of a sparse gradient (of an embedding) is wrong if two of its slices are
    of the same row.
    """
    return tf.linalg.global_norm([tf.convert_to_tensor(g) for g in gradients if g is not None])
