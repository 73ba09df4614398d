"""SGD in one sweep: NumPy, TFF's SGD behind the clip, and in place as by value."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.algorithms.optimizers.local_sgd import ClippedOptimizer, LocalSgd

numbers = st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3)


def tensors(values):
    return (tf.constant(values[:2], tf.float32), tf.constant(values[2], tf.float32))


def flat(weights):
    return np.concatenate([np.ravel(w) for w in weights])


def by_value(optimizer, weights, gradients):
    state = optimizer.initialize(tf.nest.map_structure(lambda w: tf.TensorSpec(w.shape), weights))
    return flat(optimizer.next(state, weights, gradients)[1])


def in_place(optimizer, weights, gradients):
    state = optimizer.initialize(tf.nest.map_structure(lambda w: tf.TensorSpec(w.shape), weights))
    variables = [tf.Variable(w) for w in weights]
    optimizer.update(state, variables, gradients)
    return flat(variables)


@examples(50)
@given(numbers, numbers, st.sampled_from([None, 1e-3, 1.0, 50.0]))
def test_matches_numpy(weights, gradients, clip_norm):
    norm = np.linalg.norm(gradients)
    scale = clip_norm / norm if clip_norm and norm > clip_norm else 1.0
    expected = np.array(weights) - 0.3 * scale * np.array(gradients)
    result = in_place(LocalSgd(0.3, clip_norm), tensors(weights), tensors(gradients))
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-3)


@examples(50)
@given(numbers, numbers)
def test_equals_clipped_tff_sgd_also_in_place(weights, gradients):
    weights, gradients = tensors(weights), tensors(gradients)
    theirs = ClippedOptimizer(tff.learning.optimizers.build_sgdm(0.3), 1.0)
    ours = LocalSgd(0.3, 1.0)
    result = by_value(ours, weights, gradients)
    np.testing.assert_allclose(result, by_value(theirs, weights, gradients), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(in_place(ours, weights, gradients), result, rtol=1e-6, atol=1e-6)


def test_variable_without_gradient_does_not_change():
    variables = [tf.Variable([1.0]), tf.Variable([2.0])]
    optimizer = LocalSgd(0.5, 1.0)
    optimizer.update(optimizer.initialize(None), variables, [None, tf.constant([1.0])])
    np.testing.assert_array_equal(flat(variables), [1.0, 1.5])


def test_a_gradient_that_is_not_finite_is_seen():
    assert not np.isfinite(
        in_place(LocalSgd(0.5, 1.0), tensors([0, 0, 0]), tensors([np.nan, 1, 1]))
    ).all()


def test_values_read_before_the_update_do_not_change():
    variable = tf.Variable([1.0, 2.0])
    before = tf.convert_to_tensor(variable)
    optimizer = LocalSgd(1.0)
    optimizer.update(optimizer.initialize(None), [variable], [tf.ones([2])])
    np.testing.assert_array_equal(before, [1.0, 2.0])
    np.testing.assert_array_equal(variable, [0.0, 1.0])


def test_the_rate_is_a_hyperparameter():
    optimizer = LocalSgd(0.5)
    state = optimizer.set_hparams(optimizer.initialize(None), {"learning_rate": 2.0})
    assert optimizer.get_hparams(state)["learning_rate"] == 2.0
    _, (weight,) = optimizer.next(state, (tf.zeros([]),), (tf.ones([]),))
    assert float(weight) == -2.0


@pytest.mark.parametrize(
    "rate, clip_norm", [(0.0, None), (float("nan"), 1.0), (1.0, 0.0), (1.0, float("nan"))]
)
def test_rejects(rate, clip_norm):
    with pytest.raises(ValueError, match="must be > 0"):
        LocalSgd(rate, clip_norm)
