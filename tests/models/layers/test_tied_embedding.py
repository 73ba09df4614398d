"""Gradients of the lookups against automatic differentiation of `tf.gather`."""

import numpy as np
import pytest
import tensorflow as tf

from tff_keyboard.models.layers.tied_embedding import lookup, lookup_tied

TABLE = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
IDS = np.array([[1, 5, 1], [0, 5, 5]], np.int32)  # repeated ids add up


def gradient(forward):
    table = tf.constant(TABLE)
    with tf.GradientTape() as tape:
        tape.watch(table)
        rows, output_table = forward(table)
        loss = tf.reduce_sum(tf.sin(rows)) + tf.reduce_sum(tf.cos(output_table))
    return tape.gradient(loss, table)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    "ours",
    [lambda t: lookup_tied(t, IDS), lambda t: (lookup(t, IDS), t)],
    ids=["tied", "untied"],
)
def test_matches_gather(ours, compiled):
    expected = tf.convert_to_tensor(gradient(lambda t: (tf.gather(t, IDS), t)))
    call = tf.function(gradient) if compiled else gradient
    result = call(ours)
    assert isinstance(result, tf.Tensor)  # dense
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_lookup_alone_is_dense():
    table = tf.constant(TABLE)
    with tf.GradientTape() as tape:
        tape.watch(table)
        loss = tf.reduce_sum(lookup(table, IDS))
    result = tape.gradient(loss, table)
    np.testing.assert_array_equal(result[:, 0], [1, 2, 0, 0, 0, 3])
