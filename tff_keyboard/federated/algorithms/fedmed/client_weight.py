"""What a FedMed client reports besides its delta, and how much of it the server believes.

    num_examples   n_k of the FedAvg branch
    loss           L_k in nats, by which topK and mediation compare
    divergence     JS per layer in nats, by which the adaptive branch weighs

All three are the client's word. An honest loss is at most about ln V, that of a model that knows
nothing; twice as much is the bound. JS is at most ln 2. Within the bounds a client may still lie:
one that claims no loss is always in topK, and one that claims JS = ln 2 weighs twice a still one.
"""

import collections
import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.federated.aggregation.guards.update_guard import WeightLimit

MAX_DIVERGENCE = math.log(2)


def fedmed_weight_type(num_layers: int) -> tff.Type:
    """Examples (or tokens), local loss, JS per layer."""
    numbers = {"num_examples": np.float32, "loss": np.float32}
    divergence = tff.TensorType(np.float32, [num_layers])
    return tff.to_type(collections.OrderedDict(numbers, divergence=divergence))


def limit_fedmed_weight(limit_examples: WeightLimit, vocabulary_size: int) -> WeightLimit:
    """Bounds on all that a client tells; of V > 1 words losses are at most 2 ln V."""
    max_loss = 2 * math.log(vocabulary_size)

    def limit(weight: Any) -> Any:
        return collections.OrderedDict(
            num_examples=limit_examples(weight["num_examples"]),
            loss=tf.minimum(weight["loss"], max_loss),
            divergence=tf.minimum(weight["divergence"], MAX_DIVERGENCE),
        )

    return limit
