"""The loss with soft labels against NumPy, its gradient against finite differences."""

import numpy as np
import pytest
import tensorflow as tf

from tff_keyboard.models.distillation_loss import soft_softmax_loss
from tff_keyboard.models.softmax_loss import softmax_loss


def _problem(seed, n=7, dim=5, vocabulary=11, scale=1.0):
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(n, dim)) * scale
    table = rng.normal(size=(vocabulary, dim)) * scale
    bias = rng.normal(size=vocabulary)
    targets = rng.integers(0, vocabulary, n)
    soft = rng.dirichlet(np.ones(vocabulary), n)
    return hidden, table, bias, targets, soft


def _truth(hidden, table, bias, targets, soft, weight):
    logits = hidden @ table.T + bias
    largest = logits.max(1, keepdims=True)
    log_p = logits - largest - np.log(np.exp(logits - largest).sum(1, keepdims=True))
    true = -log_p[np.arange(len(targets)), targets]
    return weight * true - (1 - weight) * (soft * log_p).sum(1), true


def _tensors(hidden, table, bias, targets, soft):
    floats = [tf.constant(x, tf.float32) for x in (hidden, table, bias)]
    return *floats, tf.constant(targets, tf.int32), tf.constant(soft, tf.float32)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [1.0, 8.0])
def test_equals_numpy(weight, scale):
    problem = _problem(1, scale=scale)
    losses, true_losses, is_best = soft_softmax_loss(*_tensors(*problem), weight)
    expected, true = _truth(*problem, weight)
    np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(true_losses, true, rtol=1e-5, atol=1e-5)
    logits = problem[0] @ problem[1].T + problem[2]
    np.testing.assert_array_equal(is_best, (logits.argmax(1) == problem[3]).astype(float))


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_gradient_equals_finite_differences(weight):
    problem = _problem(2)
    coefficients = np.random.default_rng(3).uniform(0.1, 1, len(problem[3]))
    tensors = _tensors(*problem)
    with tf.GradientTape() as tape:
        tape.watch(tensors[:3])
        losses, _, _ = soft_softmax_loss(*tensors, weight)
        total = tf.reduce_sum(losses * tf.constant(coefficients, tf.float32))
    gradients = tape.gradient(total, tensors[:3])
    for part, gradient in enumerate(gradients):
        direction = np.random.default_rng(4).normal(size=problem[part].shape)
        moved = []
        for sign in (-1, 1):
            values = list(problem)
            values[part] = values[part] + sign * 1e-5 * direction
            moved.append((coefficients * _truth(*values, weight)[0]).sum())
        slope = (moved[1] - moved[0]) / 2e-5
        assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_weight_one_is_the_ordinary_loss():
    tensors = _tensors(*_problem(5))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensors[:3])
        soft, _, _ = soft_softmax_loss(*tensors, 1.0)
        ordinary, _ = softmax_loss(*tensors[:4])
    np.testing.assert_allclose(soft, ordinary, rtol=1e-6)
    for a, b in zip(
        tape.gradient(soft, tensors[:3]), tape.gradient(ordinary, tensors[:3]), strict=True
    ):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_own_predictions_are_a_fixed_point():
    """With the model's own probabilities as soft labels, the gradient is zero."""
    hidden, table, bias, targets, _ = _tensors(*_problem(6))
    soft = tf.nn.softmax(tf.matmul(hidden, table, transpose_b=True) + bias)
    with tf.GradientTape() as tape:
        tape.watch([hidden, table])
        losses, _, _ = soft_softmax_loss(hidden, table, bias, targets, soft, 0.0)
    for gradient in tape.gradient(losses, [hidden, table]):
        np.testing.assert_allclose(gradient, 0, atol=1e-5)


def test_no_positions():
    hidden, table, _, targets, soft = _tensors(*_problem(7))
    losses, _, _ = soft_softmax_loss(hidden[:0], table, None, targets[:0], soft[:0], 0.5)
    assert losses.shape == (0,)


def test_rejects_a_weight_outside_the_unit_interval():
    with pytest.raises(ValueError, match="true_weight"):
        soft_softmax_loss(*_tensors(*_problem(8)), 1.5)
