"""Server optimizers by config against NumPy: the equations of `optimizers.py`, in float64."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.algorithms.optimizers import optimizers
from tff_keyboard.algorithms.optimizers.accumulating import AdagradOptimizer
from tff_keyboard.algorithms.optimizers.registry.fedadagrad import FedAdagrad
from tff_keyboard.algorithms.optimizers.registry.fedadam import FedAdam
from tff_keyboard.algorithms.optimizers.registry.fedavgm import FedAvgM
from tff_keyboard.algorithms.optimizers.registry.fedyogi import FedYogi
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient
from tff_keyboard.config.sections.central_config import CentralAdam, CentralSgd

ADAPTIVE = [FedAdam(), FedYogi(), FedAdagrad()]


def run(optimizer, weights, gradients):
    """The weights after a step for each row of `gradients` [steps, n]."""
    weights = (tf.constant(weights, tf.float32),)
    state = optimizer.initialize((tf.TensorSpec(weights[0].shape, tf.float32),))
    for gradient in gradients:
        state, weights = optimizer.next(state, weights, (tf.constant(gradient, tf.float32),))
    return weights[0].numpy()


def numpy_adaptive(config, weights, gradients):
    """m and v from 0, bias-corrected but for AdagradOptimizer; tau outside the root."""
    w, m, v = np.asarray(weights, np.float64), 0.0, 0.0
    for t, g in enumerate(np.asarray(gradients, np.float64), start=1):
        if isinstance(config, FedAdagrad):
            v = v + g**2
            w = w - config.learning_rate * g / (np.sqrt(v) + config.epsilon)
            continue
        m = config.beta_1 * m + (1 - config.beta_1) * g
        if isinstance(config, FedYogi):
            v = v - (1 - config.beta_2) * g**2 * np.sign(v - g**2)
        else:
            v = config.beta_2 * v + (1 - config.beta_2) * g**2
        rate = config.learning_rate * np.sqrt(1 - config.beta_2**t) / (1 - config.beta_1**t)
        w = w - rate * m / (np.sqrt(v) + config.epsilon)
    return w


@pytest.mark.parametrize("config", ADAPTIVE, ids=lambda config: config.type)
@examples(20)
@given(seed=st.integers(0, 2**31), log_scale=st.floats(-4, 2), steps=st.integers(1, 12))
def test_matches_numpy(config, seed, log_scale, steps):
    rng = np.random.default_rng(seed)
    weights, gradients = rng.normal(size=5), rng.normal(size=(steps, 5)) * 10.0**log_scale
    result = run(config.build(), weights, gradients)
    np.testing.assert_allclose(
        result, numpy_adaptive(config, weights, gradients), rtol=2e-4, atol=2e-6
    )


@pytest.mark.parametrize("config", [FedAdam(), FedYogi()], ids=lambda config: config.type)
def test_epsilon_is_added_to_the_uncorrected_root(config):
    """One step of a gradient as small as epsilon tells the three readings apart."""
    g = config.epsilon
    moved = -run(config.build(), [0.0], [[g]])[0]
    root = np.sqrt(1 - config.beta_2) * g  # of v
    rate, first = config.learning_rate, 1 - config.beta_1
    ours = rate * np.sqrt(1 - config.beta_2) / first * first * g / (root + config.epsilon)
    kingma = rate * g / (g + config.epsilon)
    reddi = rate * first * g / (root + config.epsilon)
    assert moved == pytest.approx(ours, rel=1e-3)
    assert kingma > 10 * ours
    assert reddi > 3 * ours


@pytest.mark.parametrize("config", ADAPTIVE, ids=lambda config: config.type)
def test_row_without_updates_does_not_change(config):
    gradients = np.array([[0.5, 0.0], [-0.1, 0.0], [0.2, 0.0]])
    result = run(config.build(), [1.0, 1.0], gradients)
    assert result[1] == 1.0
    assert result[0] != 1.0


def test_epsilon_of_adagrad_is_outside_the_root():
    """Inside, as in TFF's, 1e-4 would be a tau of 1e-2: steps of small deltas would vanish."""
    tiny = np.full([1, 1], 1e-3)
    moved = 1.0 - run(AdagradOptimizer(0.1, 1e-4), [1.0], tiny)[0]
    assert moved == pytest.approx(0.1 * 1e-3 / (1e-3 + 1e-4), rel=1e-3)
    inside = 0.1 * 1e-3 / np.sqrt(1e-6 + 1e-4)
    assert moved > 9 * inside


def test_the_defaults_are_the_values_tuned_for_next_word_prediction():
    found = {config.type: (config.learning_rate, config.epsilon) for config in ADAPTIVE}
    assert found == {
        "fedadam": (0.01, 1e-5),
        "fedyogi": (0.01, 1e-5),
        "fedadagrad": (0.0316, 1e-4),
    }
    assert (FedAdam().beta_1, FedAdam().beta_2) == (FedYogi().beta_1, FedYogi().beta_2)
    assert (FedAdam().beta_1, FedAdam().beta_2) == (0.9, 0.999)


@pytest.mark.parametrize("config", [*ADAPTIVE, FedAvgM()], ids=lambda config: config.type)
def test_the_learning_rate_can_be_set_between_steps(config):
    optimizer = config.build()
    state = optimizer.initialize((tf.TensorSpec([2], tf.float32),))
    changed = optimizer.get_hparams(state)
    changed["learning_rate"] = tf.constant(0.0)
    state = optimizer.set_hparams(state, changed)
    _, weights = optimizer.next(state, (tf.ones([2]),), (tf.ones([2]),))
    np.testing.assert_array_equal(weights[0], [1.0, 1.0])


@pytest.mark.parametrize("arguments", [(0.0, 1e-4), (0.1, 0.0), (-1.0, 1e-4)])
def test_adagrad_rejects(arguments):
    with pytest.raises(ValueError, match="must be > 0"):
        AdagradOptimizer(*arguments)


@pytest.mark.parametrize(
    "config, federated",
    [
        (CentralAdam(), FedAdam(learning_rate=3e-3, epsilon=1e-7)),
    ],
)
def test_central_optimizers_clip_and_are_the_same_equations(config, federated):
    rng = np.random.default_rng(0)
    weights, gradients = rng.normal(size=4), 10 * rng.normal(size=(5, 4))
    client = FedAvgClient(gradient_clip_norm=1.0)
    clipped = [g * min(1, 1 / np.linalg.norm(g)) for g in gradients]
    result = run(optimizers.build_central_optimizer(config, client), weights, gradients)
    np.testing.assert_allclose(result, numpy_adaptive(federated, weights, clipped), rtol=2e-4)
    unclipped = FedAvgClient(gradient_clip_norm=0.0)
    result = run(optimizers.build_central_optimizer(config, unclipped), weights, gradients)
    np.testing.assert_allclose(result, numpy_adaptive(federated, weights, gradients), rtol=2e-4)


def test_central_sgd_is_the_clients():
    client = FedAvgClient(learning_rate=0.1, momentum=0.5, gradient_clip_norm=0.0)
    built = optimizers.build_central_optimizer(CentralSgd(), client)
    np.testing.assert_allclose(run(built, [0.0], np.ones((2, 1))), [-0.25], rtol=1e-5)
