"""What a client may claim to weigh: public bounds, applied on the server by `update_guard.py`.

    "tokens", "examples":   w <- min(w, bound)          bound: messages x length x epochs, public
    "uniform":              w <- 1 if w > 0 else 0

A client's weight is a number that the client sends. Without a bound one client that claims a weight
of 10^6 *is* the weighted mean, whatever clips its delta.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

from tff_keyboard.config import RunConfig
from tff_keyboard.config.fine_tuning_config import RehearsalMethod

# From a weight (finite, >= 0) to what it may count at most, in TensorFlow.
WeightLimit: TypeAlias = Callable[[Any], Any]


def at_most(bound: float) -> WeightLimit:
    """min(w, bound).

    Raises:
      ValueError: `bound` is not > 0.
    """
    if not bound > 0:
        raise ValueError(f"`bound` of a weight must be > 0, got {bound!r}.")
    return lambda weight: tf.minimum(weight, tf.cast(bound, weight.dtype))


def zero_or_one(weight: tf.Tensor) -> tf.Tensor:
    """1 for whoever counts, however much it claims."""
    return tf.cast(weight > 0, weight.dtype)


def public_weight_bound(config: RunConfig) -> float | None:
    """The most that an honest client can weigh, as everybody who has the config can work out.

    None where there is no such number: `client.max_examples` = 0 lets clients train on all they
    have.

    >>> from tff_keyboard import config
    >>> public_weight_bound(config.loads("client = {max_examples = 64, epochs = 2}"))
    8192.0
    """
    if config.aggregation.client_weighting == "uniform":
        return 1.0
    messages = config.client.max_examples
    if not messages:
        return None
    method = config.fine_tuning.method
    if isinstance(method, RehearsalMethod):
        portion = method.portion
        messages += round(messages * portion / (1 - portion))
    if config.aggregation.client_weighting == "tokens":
        messages *= config.data.max_length
    return float(messages * config.client.epochs)
