"""BLT coefficients: published figures, optimality, streaming against the dense inverse."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from tests.privacy.mechanisms.noise_score import GBOARD, score
from tests.support.examples import examples
from tests.support.own_seconds import own_seconds
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.mechanisms import toeplitz
from tff_keyboard.privacy.mechanisms.blt import Blt, optimal_blt


def tree_error(rounds):
    """Returns the mean over t of the variance of Honaker's estimate of t unit leaves."""
    blocks = [
        [1 / (2 - 2.0**-height) for height in range(t.bit_length()) if t >> height & 1]
        for t in range(1, rounds + 1)
    ]
    return np.mean([sum(block) for block in blocks])


def test_gboard_schedule():
    optimal_blt.cache_clear()
    with own_seconds() as spent:
        noise = optimal_blt(**GBOARD)
        assert spent() < 10
    assert score(noise, "mean", **GBOARD) <= 9.3
    assert score(noise, "max", **GBOARD) <= 11.2
    assert optimal_blt(**GBOARD) is noise  # cached by schedule


def test_gboard_epsilon_at_the_noise_of_the_tree():
    # Xu et al. 2023, es-ES: tree nodes of 7 clip norms: rho 0.81, epsilon 8.90.
    noise = optimal_blt(**GBOARD)
    workload = toeplitz.prefix_sums(2000)
    mean = toeplitz.iterate_variances(noise.inverse(2000), workload).mean()
    z = 7.0 * np.sqrt(tree_error(2000) / mean)
    for method in ("RDP conversion", "exact Gaussian"):
        guarantee = accounting.matrix_gaussian(
            noise=noise,
            noise_multiplier=z,
            rounds=2000,
            delta=1e-10,
            min_separation=313,
            max_participations=6,
            method=method,
        )
        assert guarantee.rho == pytest.approx(0.28, abs=0.005)
        assert guarantee.epsilon <= 5.0


def test_sensitivity_of_a_published_blt():
    # google/federated-compute's accounting test: rho 3.17226586 at noise multiplier 1.
    noise = Blt(
        decays=(0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778),
        scales=(0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734),
    )
    for most in (0, 2):
        guarantee = accounting.matrix_gaussian(
            noise=noise,
            noise_multiplier=1.0,
            rounds=100,
            delta=1e-6,
            min_separation=50,
            max_participations=most,
        )
        assert guarantee.rho == pytest.approx(3.17226586, abs=1e-7)


def test_better_than_the_published_baseline_of_one_buffer():
    # jax_privacy's tests use (0.98770, 0.10596) for this schedule as a lower bound.
    schedule = {"rounds": 1000, "min_separation": 5, "max_participations": 2}
    baseline = Blt(decays=(0.9877027559462715,), scales=(0.10595704738115597,))
    for error in ("mean", "max"):
        noise = optimal_blt(**schedule, buffers=1, error=error)
        assert score(noise, error, **schedule) < 0.96 * score(baseline, error, **schedule)


@pytest.mark.slow
def test_equals_the_published_optimum_of_one_participation():
    # jax_privacy's golden values: 100,000 rounds, largest error, two buffers.
    noise = optimal_blt(rounds=100_000, min_separation=100_000, error="max")
    np.testing.assert_allclose(noise.decays, [0.9857068667, 0.9999528892], rtol=1e-5)
    np.testing.assert_allclose(noise.scales, [0.1878393665, 0.0122853238], rtol=1e-3)


@pytest.mark.parametrize("error", ["mean", "max"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_no_neighbour_is_better(error, momentum):
    schedule = {"rounds": 300, "min_separation": 40, "max_participations": 4}
    noise = optimal_blt(**schedule, error=error, momentum=momentum)
    best = score(noise, error, **schedule, momentum=momentum)
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = 10 ** rng.uniform(-4, -1)
        decays = 1 - (1 - np.array(noise.decays)) * np.exp(size * rng.normal(size=2))
        scales = np.array(noise.scales) * np.exp(size * rng.normal(size=2))
        if scales.sum() > 1 or decays.min() < 0:
            continue
        other = Blt(decays=tuple(decays), scales=tuple(scales))
        assert score(other, error, **schedule, momentum=momentum) > best * (1 - 1e-6)


@pytest.mark.slow
def test_more_buffers_are_never_worse():
    scores = [score(optimal_blt(**GBOARD, buffers=d), "mean", **GBOARD) for d in (1, 2, 3, 4)]
    assert all(after <= before * (1 + 1e-6) for before, after in itertools.pairwise(scores))


def test_every_client_in_every_round_gives_independent_noise():
    noise = optimal_blt(rounds=64, min_separation=1)
    assert score(noise, "max", rounds=64, min_separation=1, max_participations=0) <= 64.01


def stream(noise, draws):
    """Computes x = C^-1 z as a server would: one row at a time, with one buffer per term."""
    buffers = np.zeros([len(noise.decays), draws.shape[1]])
    decays, scales = np.array(noise.decays), np.array(noise.scales)
    released = []
    for draw in draws:
        x = draw - scales @ buffers
        buffers = decays[:, np.newaxis] * buffers + x
        released.append(x)
    return np.array(released)


@examples(30)
@given(
    decays=st.lists(st.floats(0, 0.999), min_size=1, max_size=4),
    share=st.floats(0, 1),
    rounds=st.integers(1, 40),
)
def test_streaming_equals_dense(decays, share, rounds):
    noise = Blt(decays=tuple(decays), scales=(share / len(decays),) * len(decays))
    column = toeplitz.checked_column(noise.column(rounds))
    by_hand = [1.0] + [
        sum(s * d**t for s, d in zip(noise.scales, noise.decays, strict=True))
        for t in range(rounds - 1)
    ]
    np.testing.assert_allclose(column, by_hand, rtol=1e-9, atol=1e-12)
    draws = np.random.default_rng(rounds).normal(size=[rounds, 3])
    dense = linalg.toeplitz(column, np.zeros(rounds))
    expected = np.linalg.solve(dense, draws)
    np.testing.assert_allclose(stream(noise, draws), expected, atol=1e-9)
    impulse = np.eye(rounds)[:, :1]
    np.testing.assert_allclose(
        noise.inverse(rounds), np.linalg.solve(dense, impulse)[:, 0], atol=1e-9
    )


@examples(30)
@given(
    forgotten=st.lists(st.floats(1e-7, 1e-3), min_size=3, max_size=4),
    shares=st.lists(st.floats(0, 1), min_size=4, max_size=4),
)
def test_long_memories_keep_their_digits(forgotten, shares):
    rounds = 2000
    shares = np.array(shares[: len(forgotten)])
    noise = Blt(
        decays=tuple(1 - part for part in forgotten),
        scales=tuple((shares / max(1.0, shares.sum() * (1 + 1e-12))).tolist()),
    )
    column = toeplitz.checked_column(noise.column(rounds))
    by_hand = [
        sum(s * d**t for s, d in zip(noise.scales, noise.decays, strict=True))
        for t in (0, 999, 1998)
    ]
    np.testing.assert_allclose(column[[1, 1000, 1999]], by_hand, rtol=1e-12, atol=1e-300)
    impulse = np.eye(rounds)[:, :1]
    np.testing.assert_allclose(noise.inverse(rounds), stream(noise, impulse)[:, 0], atol=1e-12)


@pytest.mark.parametrize(
    "decays, scales, words",
    [
        ((), (), "1 to 4 numbers"),
        ((0.5,), (0.1, 0.2), "the same length"),
        ((1.0,), (0.1,), r"`decays` must lie in \[0, 1\)"),
        ((0.5,), (-0.1,), "`scales` must be >= 0"),
        ((0.5, 0.6), (0.6, 0.6), "sum to <= 1"),
    ],
)
def test_wrong_coefficients_are_refused(decays, scales, words):
    with pytest.raises(ValueError, match=words):
        Blt(decays=decays, scales=scales)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"buffers": 5}, "`buffers` must be in 1..4, got 5"),
        ({"min_separation": 0}, "`min_separation` must be >= 1 round, got 0"),
        ({"rounds": 0}, "`rounds` must be >= 1, got 0"),
        ({"error": "median"}, "`error` must be 'mean' or 'max'"),
    ],
)
def test_wrong_schedules_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        optimal_blt(**(GBOARD | change))
