"""Jensen-Shannon divergence against SciPy, and the properties FedMed relies on."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import distance

from tests.support.examples import examples
from tff_keyboard.aggregators.layers import Layer
from tff_keyboard.algorithms.fedmed.js_divergence import js_divergences_of_update

# Float32 rounds p / m by 6e-8. A client's FedMed weight is exp(JS): 1e-7 nats are 1e-7 of it.
ROUNDING = 1e-7
LAYERS = (Layer("first", (0, 2)), Layer("second", (1,)))


def js_divergences(server, client, layers):
    update = [a - b for a, b in zip(server, client, strict=True)]
    return js_divergences_of_update(server, update, layers)


def numpy_js(server, client, positions):
    def distribution(weights):
        return np.abs(np.concatenate([np.ravel(np.float64(weights[i])) for i in positions]))

    return distance.jensenshannon(distribution(server), distribution(client)) ** 2


def weights(seed, scale=1.0):
    rng = np.random.default_rng(seed)
    return [np.float32(scale * rng.normal(size=s)) for s in ((4, 3), (5,), (2,))]


@pytest.mark.parametrize("scale", [1e-2, 1.0, 50.0])
def test_equals_scipy(scale):
    server, client = weights(0, scale), weights(1, scale)
    got = js_divergences(server, client, LAYERS)
    expected = [numpy_js(server, client, layer.positions) for layer in LAYERS]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=ROUNDING)


@examples(50)
@given(
    seed=st.integers(0, 10**6),
    log_scale=st.floats(-6, 6),
)
def test_bounded_symmetric_and_zero_on_equals(seed, log_scale):
    server, client = weights(seed, 10**log_scale), weights(seed + 1, 10**log_scale)
    there = js_divergences(server, client, LAYERS).numpy()
    back = js_divergences(client, server, LAYERS).numpy()
    np.testing.assert_allclose(there, back, rtol=1e-6, atol=ROUNDING)
    assert np.all(there >= 0)
    assert np.all(there <= math.log(2) * (1 + 1e-6))
    assert not np.any(js_divergences(server, server, LAYERS))


@pytest.mark.parametrize("size", [2**15 - 1, 2**16, 100_003])
def test_layers_larger_than_a_piece(size):
    """Nothing is left out at the ends of pieces; many small roundings do not add up."""
    rng = np.random.default_rng(size)
    server = [np.float32(rng.normal(scale=0.1, size=size)), np.float32(rng.normal(size=(40, 3)))]
    server[0][-5:] = 3.0  # the last elements matter
    client = [w + np.float32(rng.normal(scale=0.01, size=w.shape)) for w in server]
    layers = (Layer("long", (0,)), Layer("short", (1,)), Layer("both", (1, 0)))
    got = js_divergences(server, client, layers)
    expected = [numpy_js(server, client, layer.positions) for layer in layers]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=ROUNDING)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=3e-10)


def test_update_is_the_change_of_the_client():
    """Also in layers larger than a piece, and where all weights of a side are 0."""
    rng = np.random.default_rng(4)
    server = [*weights(0)[:2], np.float32(rng.normal(size=40_000)), np.zeros(3, np.float32)]
    client = [w + np.float32(rng.normal(scale=0.1, size=w.shape)) for w in server]
    update = [a - b for a, b in zip(server, client, strict=True)]
    layers = tuple(Layer(str(i), (i,)) for i in range(4))
    got = js_divergences_of_update(server, update, layers)
    client = [np.float64(a) - b for a, b in zip(server, update, strict=True)]
    uniform = [np.ones(3) if not np.any(w) else w for w in server]  # what zeros count as
    expected = [numpy_js(uniform, client, (i,)) for i in range(4)]
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=ROUNDING)


def test_weights_that_are_not_finite_give_no_finite_divergence():
    for wrong in (np.nan, np.inf):
        client = weights(1)
        client[1][0] = wrong
        got = js_divergences(weights(0), client, LAYERS).numpy()
        assert np.isfinite(got[0])
        assert not np.isfinite(got[1])


def test_disjoint_support_reaches_the_bound():
    server = [np.float32([[1, 0]]), np.float32([1]), np.float32([0])]
    client = [np.float32([[0, 1]]), np.float32([1]), np.float32([0])]
    np.testing.assert_allclose(js_divergences(server, client, LAYERS), [math.log(2), 0], rtol=1e-6)


def test_zero_layers_are_equal_and_finite():
    zeros = [np.zeros_like(w) for w in weights(0)]
    assert not np.any(js_divergences(zeros, zeros, LAYERS))
    assert np.all(np.isfinite(js_divergences(zeros, weights(1), LAYERS)))
