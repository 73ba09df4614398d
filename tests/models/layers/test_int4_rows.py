"""A table that is read as an export of int4 rows holds it."""

import numpy as np
import tensorflow as tf

from tff_keyboard.models import build_model
from tff_keyboard.models.layers.int4_rows import rounded_rows
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.quantization import quantize_rows_int4

RNG = np.random.default_rng(0)
TABLE = (RNG.normal(size=(50, 16)) * RNG.uniform(0.2, 2, size=(50, 1))).astype(np.float32)


def numpy_rounded(table):
    table = table.astype(np.float64)
    steps = np.abs(table).max(axis=1, keepdims=True) * 0.9 / 7
    base = steps.max() / 127
    steps = np.clip(np.round(steps / base), 1, 127) * base
    return np.clip(np.round(table / steps), -7, 7) * steps


def cifg(**options):
    return build_model("cifg", vocabulary_size=50, seed=3, units=6, embedding_size=16, **options)


def test_matches_numpy():
    np.testing.assert_allclose(rounded_rows(TABLE), numpy_rounded(TABLE), atol=1e-6)
    np.testing.assert_array_equal(rounded_rows(np.zeros([3, 2], np.float32)), 0)


def test_the_gradient_passes_through():
    table = tf.Variable(TABLE)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(rounded_rows(table) * TABLE)
    np.testing.assert_array_equal(tape.gradient(loss, table), TABLE)


def test_an_export_stores_just_what_the_model_reads():
    hidden = RNG.normal(size=(40, 16))
    model = cifg(int4_rows=True)
    model.embedding.assign(TABLE)
    weights = CifgWeights.from_model(model)
    stored = quantize_rows_int4(weights.embedding, hidden.T @ hidden).dequantized()
    np.testing.assert_allclose(stored, numpy_rounded(TABLE), atol=1e-6)


def test_training_and_steps_read_the_rounded_table():
    model, plain = cifg(int4_rows=True), cifg()
    plain.embedding.assign(rounded_rows(model.embedding))
    ids = tf.constant([[1, 7, 9, 2]])
    np.testing.assert_allclose(model(ids), plain(ids), atol=1e-6)
    np.testing.assert_allclose(model.hidden(ids, training=True), plain.hidden(ids), atol=1e-6)
    logits, _ = model.step(ids[:, 1], model.initial_state(1))
    np.testing.assert_allclose(logits, plain.step(ids[:, 1], plain.initial_state(1))[0], atol=1e-6)


def test_a_float_model_goes_on_as_a_rounded_one():
    assert cifg(int4_rows=True).architecture == cifg().architecture
    assert "int4_rows" not in cifg().options
