"""Sensitivity and error of Toeplitz columns against dense matrices and all patterns."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from tests.support.examples import examples
from tff_keyboard.privacy.mechanisms import toeplitz


def dense(column, rounds):
    """Returns C, [rounds, rounds], from a column padded with zeros."""
    padded = np.zeros(rounds)
    padded[: min(len(column), rounds)] = column[:rounds]
    return linalg.toeplitz(padded, np.zeros(rounds))


def brute_force(column, rounds, min_separation, max_participations):
    """Returns max over patterns and signs of ||sum of signed columns||^2, with scalar updates."""
    matrix = dense(column, rounds)
    best = 0.0
    for count in range(1, max_participations + 1):
        for pattern in itertools.combinations(range(rounds), count):
            if any(b - a < min_separation for a, b in itertools.pairwise(pattern)):
                continue
            for signs in itertools.product([1, -1], repeat=count - 1):
                vector = matrix[:, pattern] @ np.array([1, *signs])
                best = max(best, float(vector @ vector))
    return best


@st.composite
def columns(draw):
    steps = draw(st.lists(st.floats(0, 1), min_size=0, max_size=8))
    return np.array([1.0, *np.sort(steps)[::-1]])


@examples(60)
@given(
    column=columns(),
    rounds=st.integers(1, 9),
    min_separation=st.integers(1, 9),
    max_participations=st.integers(1, 4),
)
def test_sensitivity_equals_brute_force(column, rounds, min_separation, max_participations):
    exact = toeplitz.sensitivity_squared(
        column,
        rounds=rounds,
        min_separation=min_separation,
        max_participations=max_participations,
    )
    truth = brute_force(column, rounds, min_separation, max_participations)
    np.testing.assert_allclose(exact, truth, rtol=1e-12)


def test_identity_if_every_client_joins_every_round():
    assert toeplitz.sensitivity_squared([1.0], rounds=7, min_separation=1) == 7.0


def test_band_shorter_than_the_separation():
    column = np.array([1.0, 0.5, 0.25])
    squared = toeplitz.sensitivity_squared(
        column, rounds=30, min_separation=3, max_participations=4
    )
    assert squared == pytest.approx(4 * column @ column, rel=1e-15)


@examples(30)
@given(column=columns(), rounds=st.integers(1, 20), momentum=st.sampled_from([0.0, 0.5, 0.9]))
def test_error_equals_dense(column, rounds, momentum):
    workload = toeplitz.prefix_sums(rounds, momentum=momentum)
    inverse = np.linalg.inv(dense(column, rounds))
    factor = dense(workload, rounds) @ inverse
    truth = np.square(factor).sum(axis=1)
    np.testing.assert_allclose(
        toeplitz.iterate_variances(inverse[:, 0], workload), truth, rtol=1e-9
    )
    assert toeplitz.reduced(truth, "mean") == truth.mean()
    assert toeplitz.reduced(truth, "max") == truth[-1]


def test_workload_matches_momentum_sgd():
    momentum, rounds = 0.9, 12
    deltas = np.random.default_rng(0).normal(size=rounds)
    velocity = iterate = 0.0
    iterates = []
    for delta in deltas:
        velocity = momentum * velocity + delta
        iterate += velocity
        iterates.append(iterate)
    matrix = dense(toeplitz.prefix_sums(rounds, momentum=momentum), rounds)
    np.testing.assert_allclose(matrix @ deltas, iterates, rtol=1e-12)


@pytest.mark.parametrize(
    "column",
    [[], [0.5], [1.0, 0.2, 0.3], [1.0, -0.1], [1.0, np.nan], [[1.0]]],
    ids=["empty", "not 1 first", "rises", "negative", "nan", "matrix"],
)
def test_columns_outside_the_theorem_are_refused(column):
    with pytest.raises(ValueError, match="`column` must begin with 1"):
        toeplitz.sensitivity_squared(column, rounds=4, min_separation=1)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"rounds": 0, "min_separation": 1}, "`rounds` must be >= 1, got 0"),
        ({"rounds": 4, "min_separation": 0}, "`min_separation` must be >= 1 round, got 0"),
        (
            {"rounds": 4, "min_separation": 1, "max_participations": -1},
            "`max_participations` must be >= 0, got -1",
        ),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        toeplitz.sensitivity_squared([1.0], **arguments)


def test_wrong_workload_and_error_are_named():
    with pytest.raises(ValueError, match=r"`momentum` must be in \[0, 1\), got 1.0"):
        toeplitz.prefix_sums(3, momentum=1.0)
    with pytest.raises(ValueError, match="`error` must be 'mean' or 'max', got 'median'"):
        toeplitz.reduced(np.ones(2), "median")
