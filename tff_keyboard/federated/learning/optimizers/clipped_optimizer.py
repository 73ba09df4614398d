"""An optimizer that first bounds the gradient's global norm.

    g <- g * min(1, c / ||g||_2),    the norm over all tensors of the gradient together

Recurrent nets have rare, huge gradients; a single one can throw a client's model, and with it the
round, far off. Source: Pascanu et al. 2013, Algorithm 1, https://arxiv.org/abs/1211.5063.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


class ClippedOptimizer(tff.learning.optimizers.Optimizer):
    """Clips, then hands over to `inner`, whose state and hyperparameters are its own.

    Args:
      clip_norm: L2 bound of the whole gradient, > 0.
    """

    def __init__(self, inner: tff.learning.optimizers.Optimizer, clip_norm: float):
        if not clip_norm > 0:
            raise ValueError(f"`clip_norm` must be > 0, got {clip_norm}.")
        self._inner = inner
        self._clip_norm = clip_norm

    def initialize(self, specs: Any) -> Any:
        return self._inner.initialize(specs)

    def next(self, state: Any, weights: Any, gradients: Any) -> tuple[Any, Any]:
        # A non-finite norm leaves the gradient as it is, so that the update guard sees it.
        norm = tf.linalg.global_norm(tf.nest.flatten(gradients))
        scale = tf.where(norm > self._clip_norm, self._clip_norm / norm, 1.0)
        clipped = tf.nest.map_structure(lambda g: None if g is None else g * scale, gradients)
        return self._inner.next(state, weights, clipped)

    def get_hparams(self, state: Any) -> Any:
        return self._inner.get_hparams(state)

    def set_hparams(self, state: Any, hparams: Any) -> Any:
        return self._inner.set_hparams(state, hparams)
