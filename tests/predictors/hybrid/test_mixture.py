"""The weights against a grid, against plain NumPy, and in limiting cases."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.predictors.hybrid import mixture
from tff_keyboard.predictors.hybrid.mixture import (
    BUCKETS,
    CACHE,
    MixtureWeights,
    bucket_of,
    familiarity,
    fit,
)


def sample(seed, count, best):
    """Returns likelihoods of three components for words drawn from the mixture `best`."""
    rng = np.random.default_rng(seed)
    models = rng.dirichlet(np.full(12, 0.3), size=[count, 3])  # [n, 3, words]
    mixed = np.einsum("ij,ijw->iw", best, models)
    words = [rng.choice(12, p=row / row.sum()) for row in mixed]
    return models[np.arange(count), :, words]


def log_likelihood(table, buckets, probabilities):
    return np.log((table[buckets] * probabilities).sum(axis=1))


def test_recovers_the_weights_of_the_data():
    rng = np.random.default_rng(0)
    buckets = rng.integers(0, BUCKETS, size=24_000)
    truth = rng.dirichlet([2, 2, 2], size=BUCKETS)
    truth[::4, CACHE] = 0
    truth /= truth.sum(axis=1, keepdims=True)
    probabilities = sample(1, len(buckets), truth[buckets])
    probabilities[buckets % 4 == 0, CACHE] = 0
    weights, _ = fit(probabilities, buckets)
    np.testing.assert_allclose(weights.table, truth, atol=0.07)
    assert np.all(weights.table[::4, CACHE] == 0)


def test_is_the_maximum_of_a_fine_grid(monkeypatch):
    monkeypatch.setattr(mixture, "PRIOR", 0.0)
    probabilities = sample(3, 300, np.tile([0.6, 0.3, 0.1], [300, 1]))
    buckets = np.full(300, 6)
    weights, gains = fit(probabilities, buckets, steps=2000, tolerance=0)
    best = log_likelihood(weights.table, buckets, probabilities).mean()
    grid = np.arange(0, 1.0001, 0.01)
    for a in grid:
        for b in grid[grid <= 1.0001 - a]:
            table = np.tile([a, b, 1 - a - b], [BUCKETS, 1])
            with np.errstate(invalid="ignore", divide="ignore"):
                assert not log_likelihood(table, buckets, probabilities).mean() > best + 1e-7
    assert gains[-1] == pytest.approx(best, abs=1e-9)


def test_one_step_is_the_mean_of_the_shares(monkeypatch):
    monkeypatch.setattr(mixture, "PRIOR", 0.0)
    probabilities = np.array([[0.5, 0.1, 0.0], [0.2, 0.2, 0.0], [0.1, 0.7, 0.0]])
    buckets = np.zeros(3, int)
    actual, _ = mixture._expectation_maximisation(
        probabilities, buckets, 1, np.array([[0.5, 0.5, 0.0]]), 0.0, 1, 0
    )
    shares = [0.5 / 0.6, 0.5, 0.1 / 0.8]
    np.testing.assert_allclose(actual, [[np.mean(shares), 1 - np.mean(shares), 0]])


@examples(40)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 200), zeros=st.floats(0, 0.9))
def test_no_step_lowers_the_likelihood(seed, count, zeros):
    rng = np.random.default_rng(seed)
    probabilities = rng.random([count, 3]) ** 6 * (rng.random([count, 3]) >= zeros)
    probabilities[0, 0] = 0.5
    weights, gains = fit(probabilities, rng.integers(0, BUCKETS, count), tolerance=0)
    assert np.all(np.diff(gains) > -1e-12)
    np.testing.assert_allclose(weights.table.sum(axis=1), 1)


def test_a_bucket_without_text_takes_the_weights_of_all():
    probabilities = sample(5, 2000, np.tile([0.2, 0.5, 0.3], [2000, 1]))
    weights, _ = fit(probabilities, np.full(2000, 5))
    np.testing.assert_allclose(weights.table[9], weights.table[5], atol=1e-3)
    np.testing.assert_allclose(weights.table[5], [0.2, 0.5, 0.3], atol=0.1)


def test_component_that_is_always_right_gets_all_weight():
    probabilities = np.tile([1e-9, 0.9, 0.5], [5000, 1])
    weights, _ = fit(probabilities, np.full(5000, 7), steps=1000)
    assert weights.table[7, 1] > 0.98


def test_buckets():
    known = [familiarity(0, 0), *(familiarity(9.0, seen) for seen in (0.0, 0.1, 3.0, 3.1))]
    assert known == [0, 1, 2, 2, 3]
    actual = [bucket_of(order, k) for order in range(6) for k in range(4)]
    assert actual == [0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11]
    assert [b for b in range(BUCKETS) if mixture.is_empty_bucket(b)] == [0, 4, 8]
    orders = mixture.matched_orders(np.array([[-1, -1], [5, -1], [-1, 3], [2, 2]]))
    np.testing.assert_array_equal(orders, [0, 1, 2, 2])
    assert mixture.matched_orders(np.empty([4, 0], int)).tolist() == [0, 0, 0, 0]


def test_json_round_trip():
    probabilities = sample(2, 500, np.tile([0.5, 0.4, 0.1], [500, 1]))
    weights, _ = fit(probabilities, np.full(500, 3))
    again = MixtureWeights.from_json(weights.to_json())
    np.testing.assert_allclose(again.table, weights.table, atol=2e-5)


@pytest.mark.parametrize(
    "rows",
    [
        None,
        7,
        "x",
        [],
        [[1, 0, 0]],
        [[0.5, 0.6, 0.2]] * BUCKETS,
        [[1.5, -0.5, 0]] * BUCKETS,
        [[0.0, 0.0, 0.0]] * BUCKETS,
        [[float("nan"), 1, 0]] * BUCKETS,
        [[1, 0]] * BUCKETS,
        [[1, 0, 0]] * (BUCKETS - 1) + [[1, 0]],
    ],
)
def test_rejects_invalid_weights(rows):
    with pytest.raises(ValueError):
        MixtureWeights.from_json(rows)


def test_nothing_to_fit_on():
    with pytest.raises(ValueError, match="no words"):
        fit(np.zeros([4, 3]), np.zeros(4, int))
