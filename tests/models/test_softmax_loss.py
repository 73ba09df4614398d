"""Loss and gradient against float64 NumPy, for likely targets and for impossible ones."""

import numpy as np
import pytest
import tensorflow as tf

from tff_keyboard.models.softmax_loss import softmax_loss


def numpy_loss_and_gradients(hidden, table, bias, targets, weights):
    """Returns the sum of weights * -log p, and its gradients, all float64."""
    logits = hidden @ table.T + bias
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    rows = np.arange(len(targets))
    losses = -(logits[rows, targets] - np.log(np.exp(logits).sum(axis=1)))
    p[rows, targets] -= 1.0
    p *= weights[:, np.newaxis]
    return losses, p @ table, p.T @ hidden, p.sum(axis=0)


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0], ids=["even", "peaked", "impossible targets"])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_matches_numpy(scale, with_bias, compiled):
    rng = np.random.default_rng(0)
    hidden, table = rng.normal(size=(9, 4)), rng.normal(size=(30, 4))
    hidden *= scale
    bias = rng.normal(size=30) if with_bias else np.zeros(30)
    targets, weights = rng.integers(0, 30, 9), rng.uniform(size=9)
    targets[3] = targets[5]  # a repeated target must be corrected twice
    expected, *expected_gradients = numpy_loss_and_gradients(hidden, table, bias, targets, weights)

    def loss_and_gradients():
        h, w, b = (tf.constant(x, tf.float32) for x in (hidden, table, bias))
        sources = [h, w, b] if with_bias else [h, w]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            losses, is_best = softmax_loss(h, w, b if with_bias else None, tf.constant(targets))
            total = tf.reduce_sum(losses * tf.constant(weights, tf.float32))
        return losses, is_best, tape.gradient(total, sources)

    smallest = np.exp(-expected.max())
    assert (smallest < 1e-38) == (scale == 40.0)  # float32 has no such probability
    call = tf.function(loss_and_gradients) if compiled else loss_and_gradients
    losses, is_best, gradients = call()
    # A loss is a difference of logits, which round at 6e-8 of their size (up to 200 here).
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5 * max(scale, 1))
    best = np.argmax(hidden @ table.T + bias, axis=1)
    np.testing.assert_array_equal(is_best, best == targets)
    for gradient, reference in zip(gradients, expected_gradients, strict=False):
        np.testing.assert_allclose(gradient, reference, rtol=1e-3, atol=1e-5 * max(scale, 1))


def test_huge_logits_stay_finite():
    hidden = tf.constant([[1000.0, 0.0], [-1000.0, 0.0]])
    table = tf.constant([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    losses, _ = softmax_loss(hidden, table, None, tf.constant([0, 0]))
    np.testing.assert_allclose(losses, [0.0, 2000.0])


def test_no_rows():
    losses, is_best = softmax_loss(tf.zeros([0, 2]), tf.ones([3, 2]), None, tf.zeros([0], tf.int32))
    assert losses.shape == is_best.shape == [0]
