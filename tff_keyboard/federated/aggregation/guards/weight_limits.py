"""What a client can claim to weigh at all, whatever others bring: applied by `update_guard.py`.

    "uniform":              w <- 1 if w > 0 else 0
    "tokens", "examples":   no limit here; `weight_cap.py` follows what people bring

Such a limit is a fact of the config or the model, which no client moves.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

# From a weight (finite, >= 0) to what it may count at most, in TensorFlow.
WeightLimit: TypeAlias = Callable[[Any], Any]


def zero_or_one(weight: tf.Tensor) -> tf.Tensor:
    """1 for whoever counts, however much it claims."""
    return tf.cast(weight > 0, weight.dtype)
