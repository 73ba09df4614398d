"""Norms of layers, and online softmax against the plain one, eagerly."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.aggregators.fedatt import aggregator
from tff_keyboard.aggregators.layers import Layer, layer_norms, resolve_layers, scale_layers
from tff_keyboard.aggregators.seeded_client_map import client_digest

ONE = (Layer("matrix", (0,)),)
TWO = (Layer("a", (0, 2)), Layer("b", (1,)))


@examples(60)
@given(
    rows=st.integers(1, 12),
    columns=st.integers(1, 12),
    log_scale=st.floats(-10, 30),
    seed=st.integers(0, 2**31),
)
def test_spectral_norm_is_near_and_never_above_the_truth(rows, columns, log_scale, seed):
    matrix = np.random.default_rng(seed).normal(size=[rows, columns]) * 10.0**log_scale
    matrix = np.float32(matrix)
    singular = np.linalg.svd(matrix.astype(np.float64), compute_uv=False)
    got = layer_norms([tf.constant(matrix)], ONE, "spectral").numpy()[0]
    assert got <= singular[0] * (1 + 1e-9)
    assert got >= singular[0] * 0.97
    if len(singular) == 1 or singular[1] < 0.8 * singular[0]:
        np.testing.assert_allclose(got, singular[0], rtol=1e-5)


def test_spectral_norm_of_zeros_and_of_higher_ranks():
    assert layer_norms([tf.zeros([3, 2])], ONE, "spectral").numpy() == [0.0]
    cube = np.random.default_rng(0).normal(size=[2, 3, 4])
    expected = np.linalg.norm(cube.reshape(6, 4), 2)
    got = layer_norms([tf.constant(cube)], ONE, "spectral").numpy()[0]
    assert got == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("norm", ["1", "2", "inf", "spectral"])
@pytest.mark.parametrize("size", [1e-30, 1e4, 3e37])
@pytest.mark.parametrize("exact", [True, False])
def test_no_float32_delta_overflows_a_norm(norm, size, exact):
    value = [np.full(s, size, np.float32) for s in ((40, 30), (7,), ())]
    norms = layer_norms(value, TWO, norm, exact=exact).numpy()
    assert np.all(np.isfinite(norms))
    assert np.all(norms > 0)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e-12, 1.0, 1e18, 1e30])
def test_the_quick_norm_is_the_exact_one_to_rounding(size):
    rng = np.random.default_rng(0)
    value = [np.float32(size * rng.normal(size=s)) for s in ((300, 200), (7,), ())]
    exact = layer_norms(value, TWO, "2").numpy()
    np.testing.assert_allclose(layer_norms(value, TWO, "2", exact=False), exact, rtol=2e-6)


def test_names_positions_and_defaults():
    value_type = tff.to_type([np.float32, np.float32, np.float32])
    assert [layer.name for layer in resolve_layers(value_type)] == ["layer_0", "layer_1", "layer_2"]
    names = ["table", "0", "bias"]  # a variable may be called "0"; then its name wins
    layers = resolve_layers(value_type, {"x": ["bias", "0"], "y": [0]}, names)
    assert [layer.positions for layer in layers] == [(2, 1), (0,)]
    with pytest.raises(ValueError, match="must have one name for each of the 3 tensors"):
        resolve_layers(value_type, None, ["one"])


def accumulators(seed, clients, log_scale):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=[clients, 2]) * 10.0**log_scale
    values = [[np.float32(rng.normal(size=s)) for s in ((2, 2), (3,), ())] for _ in range(clients)]
    counts = rng.uniform(size=clients) < 0.8
    singles = [
        aggregator.client_accumulator(v, tf.constant(s), tf.constant(c))
        for v, s, c in zip(values, scores, counts, strict=True)
    ]
    return singles, scores[counts], [v for v, c in zip(values, counts, strict=True) if c]


@examples(40)
@given(
    seed=st.integers(0, 2**31),
    clients=st.integers(1, 8),
    log_scale=st.floats(-3, 300),
    cut=st.integers(0, 8),
)
@example(seed=0, clients=2, log_scale=293.0, cut=0)  # differences to "no maximum yet" overflowed
def test_any_grouping_of_clients_is_the_softmax(seed, clients, log_scale, cut):
    singles, scores, kept = accumulators(seed, clients, log_scale)
    specs = [tf.TensorSpec(s, tf.float32) for s in ((2, 2), (3,), ())]
    merge = functools.partial(aggregator.merge_accumulators, layers=TWO)
    left, right = (
        functools.reduce(merge, part, aggregator.empty_accumulator(specs, 2))
        for part in (singles[:cut], singles[cut:])
    )
    total = merge(left, right)
    got = aggregator.weighted_mean(total, TWO)
    measured = aggregator.attention_measurements(total, TWO)
    assert total["clients"] == len(kept)
    if not kept:
        assert not any(np.any(x) for x in got)
        return
    exponentials = np.exp(scores - scores.max(axis=0))
    attention = exponentials / exponentials.sum(axis=0)  # [clients, layers]
    for number, layer in enumerate(TWO):
        for i in layer.positions:
            expected = sum(
                a * np.float64(v[i]) for a, v in zip(attention[:, number], kept, strict=True)
            )
            np.testing.assert_allclose(got[i], expected, rtol=1e-5, atol=1e-6)
        alpha = attention[:, number]
        entropy = -np.sum(alpha * np.log(np.maximum(alpha, 1e-300)))
        np.testing.assert_allclose(measured[layer.name]["entropy"], entropy, rtol=1e-4, atol=1e-6)


def test_scaling_keeps_the_structure():
    value = {"x": tf.ones([2]), "y": (tf.ones([]), tf.ones([3]))}
    scaled = scale_layers(value, TWO, tf.constant([2.0, 5.0]))
    assert isinstance(scaled["y"], tuple)
    np.testing.assert_array_equal(scaled["x"], [2, 2])
    np.testing.assert_array_equal(scaled["y"][0], 5)


def test_digests_see_every_bit_and_every_boundary():
    base = [np.zeros(4, np.float32), np.zeros(2, np.float32)]
    other = [np.zeros(3, np.float32), np.zeros(3, np.float32)]
    flipped = [np.array([0, 0, 0, 1e-45], np.float32), base[1]]
    digests = {int(client_digest(v)) for v in (base, other, flipped, [base[1], base[0]])}
    assert len(digests) == 4
    assert int(client_digest(base)) == int(client_digest([x.copy() for x in base]))
