"""Starts a learning process from given model weights.

A TFF model function runs on every client in every round, so what it initialises is computed
thousands of times and overwritten at once. The weights training starts from are therefore put in
here, once, and model functions may start from whatever is cheapest.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


def with_initial_weights(
    process: tff.learning.templates.LearningProcess, trainable: Sequence[np.ndarray]
) -> tff.learning.templates.LearningProcess:
    """`process`, whose `initialize` gives a state with these weights; all else is unchanged.

    Args:
      process: Any learning process without non-trainable weights.
      trainable: float32 arrays in the order and shapes of the model's trainable variables.

    Raises:
      TypeError: Number, shape or dtype differ from the model's.
    """

    @tff.tensorflow.computation
    def weights():
        return tff.learning.models.ModelWeights([tf.constant(w) for w in trainable], [])

    @tff.federated_computation
    def initialize():
        state = process.initialize()
        return tff.federated_map(
            process.set_model_weights, (state, tff.federated_eval(weights, tff.SERVER))
        )

    return tff.learning.templates.LearningProcess(
        initialize,
        process.next,
        process.get_model_weights,
        process.set_model_weights,
        get_hparams_fn=process.get_hparams,
        set_hparams_fn=process.set_hparams,
    )
