"""Noise of every mechanism against dense matrices, Honaker's variances, and itself resumed."""

import numpy as np
import pytest
from scipy import linalg

from tff_keyboard.privacy.mechanisms.mechanism import (
    BandedMechanism,
    BltMechanism,
    Gaussian,
    Tree,
    TreeAdaptive,
    named,
    optimal_mechanism,
)
from tff_keyboard.privacy.mechanisms.noise_streams import IndependentNoise, TreeNoise, keyed_draw

KEY = bytes(range(32))
MECHANISMS = {
    "gaussian": Gaussian(),
    "tree": Tree(),
    "tree, restarts": TreeAdaptive(restart_rounds=3),
    "blt": BltMechanism(decays=(0.5, 0.9), scales=(0.3, 0.2)),
    "banded": BandedMechanism(bands=(1.0, 0.5, 0.3)),
}


def rounds_of(mechanism, rounds, size=3, key=KEY):
    noise = mechanism.noise(keyed_draw(key), size)
    return np.array([noise(t) for t in range(rounds)])


def recorded():
    """A `Draw` that gives unit vectors, one axis a label: the weights of the draws are seen."""
    labels: list[str] = []

    def draw(label, size):
        assert label not in labels, "drawn twice"
        labels.append(label)
        return np.eye(size)[len(labels) - 1]

    return draw, labels


@pytest.mark.parametrize("name", ["blt", "banded"])
def test_streaming_is_the_dense_inverse(name):
    mechanism, rounds = MECHANISMS[name], 40
    draws = IndependentNoise(keyed_draw(KEY), 3)
    z = np.array([draws.next() for _ in range(rounds)])
    matrix = mechanism.matrix()
    assert matrix is not None
    dense = linalg.toeplitz(matrix.column(rounds), np.zeros(rounds))
    expected = np.linalg.solve(dense, z)
    np.testing.assert_allclose(rounds_of(mechanism, rounds), expected, atol=1e-12)


def test_tree_noise_of_running_sums_is_honakers():
    """Running sums have the variances of Honaker's estimate; leaves that end are combined well."""
    rounds = 16
    draw, labels = recorded()
    stream = TreeNoise(draw, 64)
    running = np.cumsum([stream.next() for _ in range(rounds)], axis=0)
    for t in range(1, rounds + 1):
        heights = [h for h in range(t.bit_length()) if t >> h & 1]
        variance = sum(1 / (2 - 2.0**-h) for h in heights)
        assert running[t - 1] @ running[t - 1] == pytest.approx(variance)
    assert len(labels) == 2 * rounds - 1  # every node once


def test_running_sums_are_linear_in_the_draws_with_weights_that_sum_to_one():
    """An estimate of a block is a mean of unbiased ways to sum it: each leaf is covered once."""
    draw, labels = recorded()
    stream = TreeNoise(draw, 64)
    running = np.cumsum([stream.next() for _ in range(8)], axis=0)
    ends = {label: int(label.split()[1]) + 1 for label in labels}
    sizes = {label: 2 ** int(label.split()[3]) for label in labels}
    for leaf in range(8):
        covering = [
            i for i, label in enumerate(labels) if ends[label] - sizes[label] <= leaf < ends[label]
        ]
        assert running[7][covering].sum() == pytest.approx(1.0)


def test_a_restart_begins_a_fresh_tree():
    draw, _ = recorded()
    stream = TreeNoise(draw, 64, restart_rounds=2)
    noises = [stream.next() for _ in range(4)]
    assert noises[0] @ noises[0] == pytest.approx(1.0)
    assert noises[2] @ noises[2] == pytest.approx(1.0)  # a leaf of its own, not a difference
    assert noises[0] @ noises[1] != 0
    assert noises[1] @ noises[2] == 0


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_pure_function_of_key_and_round(name):
    mechanism = MECHANISMS[name]
    straight = rounds_of(mechanism, 9)
    resumed = mechanism.noise(keyed_draw(KEY), 3)  # a new process that begins with round 6
    np.testing.assert_array_equal(resumed(6), straight[6])
    np.testing.assert_array_equal(resumed(6), straight[6])
    np.testing.assert_array_equal(resumed(7), straight[7])
    np.testing.assert_array_equal(resumed(2), straight[2])  # thrown back
    np.testing.assert_array_equal(resumed(8), straight[8])
    assert not np.allclose(straight, rounds_of(mechanism, 9, key=bytes(32)))
    with pytest.raises(ValueError, match="`round_num` must be >= 0, got -1"):
        resumed(-1)


def test_independent_rounds_compute_nothing_before():
    asked = []

    def draw(label, size):
        asked.append(label)
        return np.zeros(size)

    MECHANISMS["gaussian"].noise(draw, 2)(1000)
    assert asked == ["round 1000"]


@pytest.mark.parametrize("name", MECHANISMS)
def test_noise_has_the_standard_deviation_of_its_row(name):
    mechanism, rounds, size = MECHANISMS[name], 6, 20_000
    noises = rounds_of(mechanism, rounds, size)
    matrix = mechanism.matrix()
    if matrix is not None:
        variances = np.cumsum(matrix.inverse(rounds) ** 2)
    elif name == "gaussian":
        variances = np.ones(rounds)
    else:
        return  # Honaker's variances above
    np.testing.assert_allclose(noises.var(axis=1), variances, rtol=0.05)


@pytest.mark.parametrize("name", ["gaussian", "tree", "blt", "banded"])
def test_optimal_mechanisms(name):
    mechanism = optimal_mechanism(
        name, rounds=50, min_separation=10, max_participations=3, buffers=3, bands=4
    )
    assert mechanism.name == name
    assert len(getattr(mechanism, "decays", ())) == (3 if name == "blt" else 0)
    assert len(getattr(mechanism, "bands", ())) == (4 if name == "banded" else 0)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"name": "laplace"}, "`name` must be one of 'gaussian'"),
        (
            {"name": "gaussian", "restart_rounds": 3},
            "`restart_rounds` has no effect with `name` = 'gaussian'",
        ),
        ({"name": "tree", "bands": (1.0,)}, "`bands` has no effect with `name` = 'tree'"),
        ({"name": "blt", "decays": (), "scales": ()}, "1 to 4 numbers"),
        ({"name": "banded"}, "`bands` is missing"),
        ({"name": "banded", "bands": (0.5,)}, "must begin with 1"),
        ({"name": "banded", "bands": (1.0, 1.5)}, "never increasing"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        named(**arguments)


def test_negative_restarts_are_refused():
    with pytest.raises(ValueError, match="`restart_rounds` must be >= 0, got -1"):
        TreeNoise(keyed_draw(KEY), 1, restart_rounds=-1)
