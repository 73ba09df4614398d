"""Noise of every mechanism against dense matrices, Honaker's variances, and resumed streams."""

import numpy as np
import pytest
from scipy import linalg

from tff_keyboard.parts import privacy_mechanism
from tff_keyboard.privacy.mechanisms.mechanism import named
from tff_keyboard.privacy.mechanisms.noise_streams import IndependentNoise, TreeNoise, keyed_draw
from tff_keyboard.privacy.registry.blt import BltMechanism
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.privacy.registry.tree import Tree

KEY = bytes(range(32))
MECHANISMS = {
    "gaussian": Gaussian(),
    "tree": Tree(),
    "blt": BltMechanism(decays=(0.5, 0.9), scales=(0.3, 0.2)),
}


def rounds_of(mechanism, rounds, size=3, key=KEY):
    noise = mechanism.noise(keyed_draw(key), size)
    return np.array([noise(t) for t in range(rounds)])


def recorded():
    """Returns a `Draw` of unit vectors, one axis per label, which shows the weights."""
    labels: list[str] = []

    def draw(label, size):
        assert label not in labels, "drawn twice"
        labels.append(label)
        return np.eye(size)[len(labels) - 1]

    return draw, labels


def test_streaming_matches_the_dense_inverse():
    mechanism, rounds = MECHANISMS["blt"], 40
    draws = IndependentNoise(keyed_draw(KEY), 3)
    z = np.array([draws.next() for _ in range(rounds)])
    matrix = mechanism.matrix()
    dense = linalg.toeplitz(matrix.column(rounds), np.zeros(rounds))
    expected = np.linalg.solve(dense, z)
    np.testing.assert_allclose(rounds_of(mechanism, rounds), expected, atol=1e-12)


def test_running_sums_have_honakers_variances():
    """Running sums have the variances of Honaker's estimate."""
    rounds = 16
    draw, labels = recorded()
    stream = TreeNoise(draw, 64)
    running = np.cumsum([stream.next() for _ in range(rounds)], axis=0)
    for t in range(1, rounds + 1):
        heights = [h for h in range(t.bit_length()) if t >> h & 1]
        variance = sum(1 / (2 - 2.0**-h) for h in heights)
        assert running[t - 1] @ running[t - 1] == pytest.approx(variance)
    assert len(labels) == 2 * rounds - 1  # one draw per node


def test_weights_of_draws_cover_each_leaf_once():
    """An estimate of a block is a mean of unbiased ways to sum it, so each leaf is covered once."""
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


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_pure_function_of_key_and_round(name):
    mechanism = MECHANISMS[name]
    straight = rounds_of(mechanism, 9)
    resumed = mechanism.noise(keyed_draw(KEY), 3)  # a new process that starts with round 6
    np.testing.assert_array_equal(resumed(6), straight[6])
    np.testing.assert_array_equal(resumed(6), straight[6])
    np.testing.assert_array_equal(resumed(7), straight[7])
    np.testing.assert_array_equal(resumed(2), straight[2])  # back to an earlier round
    np.testing.assert_array_equal(resumed(8), straight[8])
    assert not np.allclose(straight, rounds_of(mechanism, 9, key=bytes(32)))
    with pytest.raises(ValueError, match="`round_num` must be >= 0, got -1"):
        resumed(-1)


def test_independent_noise_skips_earlier_rounds():
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
    if name == "blt":
        variances = np.cumsum(mechanism.matrix().inverse(rounds) ** 2)
    elif name == "gaussian":
        variances = np.ones(rounds)
    else:
        return  # see the test of Honaker's variances
    np.testing.assert_allclose(noises.var(axis=1), variances, rtol=0.05)


@pytest.mark.parametrize("name", ["gaussian", "tree", "blt"])
def test_optimal_mechanisms(name):
    options = {"buffers": 3} if name == "blt" else {}
    config = privacy_mechanism.MECHANISMS[name](**options)
    mechanism = config.mechanism(rounds=50, min_separation_rounds=10)
    assert mechanism.name == name
    assert len(getattr(mechanism, "decays", ())) == (3 if name == "blt" else 0)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"name": "laplace"}, "`name` must be one of 'blt'"),
        ({"name": "tree", "decays": (0.5,)}, "`decays` has no effect with `name` = 'tree'"),
        ({"name": "blt", "decays": (), "scales": ()}, "1 to 4 numbers"),
        ({"name": "blt", "scales": (0.5,)}, "`decays` is missing"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        named(**arguments)
