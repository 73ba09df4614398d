"""The sign of FedProx' proximal term, in TFF's builder and in the example of docs/own_parts.md.

A client minimises -w. Two steps of SGD with learning rate 0.1 lead from 0 to 0.2. The term
mu / 2 |w - w_0|^2 of Li et al. 2020 (https://arxiv.org/abs/1812.06127, equation 2) pulls the second
step back to w_0 = 0: with mu = 1 it ends at 0.1 + 0.1 * (1 - 1 * 0.1) = 0.19.
"""

import collections
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support import own_parts_page
from tff_keyboard.algorithms.client_packing.local_context import LocalContext
from tff_keyboard.algorithms.composition import compose_process

RATE, STRENGTH = 0.1, 1.0
SPEC = collections.OrderedDict(x=tf.TensorSpec([None, 1]), y=tf.TensorSpec([None, 1]))


def model_fn():
    keras_model = tf.keras.Sequential(
        [tf.keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros", input_shape=[1])]
    )
    return tff.learning.models.from_keras_model(
        keras_model,
        loss=MinusOutput(),
        input_spec=SPEC,
    )


class MinusOutput(tf.keras.losses.Loss):
    def call(self, y_true, y_pred):
        return -y_pred


def weight_after_a_round(process):
    """Returns the weight after a round of one client with two batches of one example each."""
    ones = np.ones([1, 1], np.float32)
    data = tf.data.Dataset.from_tensors(collections.OrderedDict(x=ones, y=ones)).repeat(2)
    context = LocalContext()
    state = context.function(process.initialize)()
    state = context.function(process.next)(state, [data]).state
    (weight,) = process.get_model_weights(state).trainable
    return float(np.squeeze(weight))


def prox_of_tff():
    return tff.learning.algorithms.build_weighted_fed_prox(
        model_fn,
        STRENGTH,
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(RATE),
        server_optimizer_fn=tff.learning.optimizers.build_sgdm(1.0),
    )


def prox_of_the_page():
    parts: dict[str, Any] = {}
    exec(own_parts_page.code(), parts)
    return compose_process(
        model_fn,
        client_work=parts["fed_prox"](model_fn, RATE, STRENGTH),
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        aggregator=tff.aggregators.MeanFactory(),
    )


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (prox_of_tff, 0.21),  # not 0.19. If this fails, TFF is mended, and docs/own_parts.md wrong
        (prox_of_the_page, 0.19),
    ],
)
def test_sign(build, expected):
    assert weight_after_a_round(build()) == pytest.approx(expected, abs=1e-6)
