"""Gradient clipping against NumPy, and what it leaves alone."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.algorithms.optimizers.local_sgd import ClippedOptimizer, LocalSgd

SGD = tff.learning.optimizers.build_sgdm(0.5)
SPECS = (tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.float32))


def step(clip_norm, gradients):
    optimizer = ClippedOptimizer(SGD, clip_norm)
    weights = (tf.zeros([2]), tf.zeros([]))
    gradients = tuple(tf.constant(g, tf.float32) for g in gradients)
    _, weights = optimizer.next(optimizer.initialize(SPECS), weights, gradients)
    return np.concatenate([np.ravel(w) for w in weights])


@examples(50)
@given(
    st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3),
    st.sampled_from([1e-3, 1.0, 50.0]),
)
def test_matches_numpy(values, clip_norm):
    gradient = np.array(values)
    norm = np.linalg.norm(gradient)
    expected = -0.5 * gradient * (clip_norm / norm if norm > clip_norm else 1.0)
    result = step(clip_norm, (values[:2], values[2]))
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("optimizer", [ClippedOptimizer(SGD, 1.0), LocalSgd(0.5, 1.0)])
def test_the_norm_of_a_sparse_gradient_adds_slices_of_the_same_row(optimizer):
    """The gradient of an embedding: rows 1, 1 and 0, so [[0, 0.5], [3, 1]] in dense form."""
    sparse = tf.IndexedSlices(tf.constant([[1.0, 1.0], [2.0, 0.0], [0.0, 0.5]]), [1, 1, 0], [2, 2])
    state = optimizer.initialize((tf.TensorSpec([2, 2], tf.float32),))
    _, (weights,) = optimizer.next(state, (tf.zeros([2, 2]),), (sparse,))
    dense = np.array([[0, 0.5], [3, 1]])
    np.testing.assert_allclose(weights, -0.5 * dense / np.linalg.norm(dense), rtol=1e-6)


def test_zero_gradient_stays_zero():
    np.testing.assert_array_equal(step(1.0, ([0.0, 0.0], 0.0)), np.zeros(3))


def test_a_gradient_that_is_not_finite_stays_so():
    assert not np.isfinite(step(1.0, ([np.nan, 1.0], 1.0))).all()


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("nan")])
def test_rejects(clip_norm):
    with pytest.raises(ValueError, match="clip_norm"):
        ClippedOptimizer(SGD, clip_norm)
