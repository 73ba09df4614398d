"""Nesterov momentum against NumPy, and as the server optimizer of a config."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.algorithms.optimizers.accumulating import NesterovSGD
from tff_keyboard.algorithms.optimizers.registry.fedadam import FedAdam
from tff_keyboard.algorithms.optimizers.registry.fedavg import FedAvgServer
from tff_keyboard.algorithms.optimizers.registry.fedavgm import FedAvgM
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient


def numpy_nesterov(weights, gradients, learning_rate, momentum):
    weights, velocity = weights.copy(), np.zeros_like(weights)
    for gradient in gradients:
        velocity = momentum * velocity + gradient
        weights = weights - learning_rate * (gradient + momentum * velocity)
    return weights


def run(optimizer, weights, gradients):
    weights = (tf.constant(weights, tf.float32),)
    specs = tuple(tf.TensorSpec(w.shape, w.dtype) for w in weights)
    state = optimizer.initialize(specs)
    for gradient in gradients:
        state, weights = optimizer.next(state, weights, (tf.constant(gradient, tf.float32),))
    return state, weights[0].numpy()


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_matches_numpy(momentum):
    rng = np.random.default_rng(0)
    weights, gradients = rng.normal(size=5), rng.normal(size=(7, 5))
    _, result = run(NesterovSGD(0.3, momentum), weights, gradients)
    expected = numpy_nesterov(weights, gradients, 0.3, momentum)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_matches_keras():
    rng = np.random.default_rng(1)
    weights, gradients = rng.normal(size=4), rng.normal(size=(5, 4))
    _, result = run(NesterovSGD(0.1, 0.9), weights, gradients)
    variable = tf.Variable(weights, dtype=tf.float32)
    keras = tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True)
    for gradient in gradients:
        keras.apply_gradients([(tf.constant(gradient, tf.float32), variable)])
    np.testing.assert_allclose(result, variable.numpy(), rtol=1e-5)


def test_hyperparameters_can_be_read_and_set():
    optimizer = NesterovSGD(0.1, 0.9)
    state = optimizer.initialize((tf.TensorSpec([2], tf.float32),))
    hparams = optimizer.get_hparams(state)
    np.testing.assert_allclose([hparams["learning_rate"], hparams["momentum"]], [0.1, 0.9])
    changed = collections.OrderedDict(learning_rate=tf.constant(0.2), momentum=hparams["momentum"])
    state = optimizer.set_hparams(state, changed)
    assert float(optimizer.get_hparams(state)["learning_rate"]) == pytest.approx(0.2)


@pytest.mark.parametrize("learning_rate, momentum", [(0.0, 0.9), (-1, 0.9), (1, 1.0), (1, -0.1)])
def test_rejects(learning_rate, momentum):
    with pytest.raises(ValueError):
        NesterovSGD(learning_rate, momentum)


@pytest.mark.parametrize(
    "config, expected",
    [
        (FedAvgServer(learning_rate=0.5), 1 - 0.5 * 2),
        (FedAvgM(learning_rate=0.5, momentum=0.9), 1 - 0.5 * (2 + 0.9 * 2)),
        (
            FedAvgM(learning_rate=0.5, momentum=0.9, nesterov=False),
            1 - 0.5 * 2,
        ),
        # Bias-corrected Adam moves by about its learning rate in the first step.
        (FedAdam(learning_rate=0.5, epsilon=1e-7), 1 - 0.5),
    ],
    ids=["sgd", "nesterov", "heavy-ball", "adam"],
)
def test_server_optimizers_by_name(config, expected):
    _, result = run(config.build(), np.ones(1), [np.full(1, 2.0)])
    np.testing.assert_allclose(result, [expected], rtol=1e-4)


def test_client_optimizer_has_momentum():
    _, result = run(
        optimizers.build_client_optimizer(FedAvgClient(learning_rate=0.1, momentum=0.5)),
        np.zeros(1),
        np.ones((2, 1)),
    )
    np.testing.assert_allclose(result, [-0.1 - 0.15], rtol=1e-5)
