"""The numbers that a FedMed client reports in addition to its update, and the server's limits.

    num_examples   n_k of the FedAvg branch
    loss           L_k in nats, compared by topK and mediation
    divergence     JS per layer in nats, the weights of the adaptive branch

All three are claims of the client. A correct loss is at most about ln V, the loss of an untrained
model; the limit is twice that. JS is at most ln 2. Within the limits a client may still lie: a
client that claims no loss is always in topK, and one that claims JS = ln 2 has twice the weight of
one that did not move.
"""

import collections
import math
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.guards.update_guard import WeightLimit

MAX_DIVERGENCE = math.log(2)


def fedmed_weight_type(num_layers: int) -> tff.Type:
    """Returns the type of examples (or tokens), local loss, and JS per layer."""
    numbers = {"num_examples": np.float32, "loss": np.float32}
    divergence = tff.TensorType(np.float32, [num_layers])
    return tff.to_type(collections.OrderedDict(numbers, divergence=divergence))


def limit_fedmed_weight(limit_examples: WeightLimit, vocabulary_size: int) -> WeightLimit:
    """Returns limits on all reported numbers. Losses are at most 2 ln V for V > 1 words."""
    max_loss = 2 * math.log(vocabulary_size)

    def limit(weight: Any) -> Any:
        return collections.OrderedDict(
            num_examples=limit_examples(weight["num_examples"]),
            loss=tf.minimum(weight["loss"], max_loss),
            divergence=tf.minimum(weight["divergence"], MAX_DIVERGENCE),
        )

    return limit
