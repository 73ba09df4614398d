"""Banded columns: optimality against a general optimiser, gradients, limits, streaming."""

import numpy as np
import pytest
from scipy import linalg, optimize

from tests.privacy.mechanisms.noise_score import GBOARD, score
from tests.support.own_seconds import own_seconds
from tff_keyboard.privacy.mechanisms import banded, toeplitz
from tff_keyboard.privacy.mechanisms.banded import Banded, optimal_banded
from tff_keyboard.privacy.mechanisms.blt import optimal_blt


def test_one_band_is_independent_noise():
    noise = optimal_banded(**GBOARD, bands=1)
    assert noise.coefficients == (1.0,)
    assert score(noise, "mean", **GBOARD) == pytest.approx(np.sqrt(6 * 2001 / 2))


@pytest.mark.slow
def test_as_many_bands_as_the_separation_beat_the_blt():
    with own_seconds() as spent:
        noise = optimal_banded(**GBOARD, bands=313)
        assert spent() < 10
    assert score(noise, "mean", **GBOARD) < 8.9 < score(optimal_blt(**GBOARD), "mean", **GBOARD)


def test_more_bands_are_better_up_to_the_separation():
    scores = [
        score(optimal_banded(**GBOARD, bands=bands), "mean", **GBOARD) for bands in (1, 2, 8, 32)
    ]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("error", ["mean", "max"])
@pytest.mark.parametrize("bands, separation", [(4, 10), (6, 3)], ids=["within", "overlapping"])
def test_a_general_optimiser_finds_nothing_better(error, bands, separation):
    schedule = {"rounds": 40, "min_separation": separation, "max_participations": 3}
    noise = optimal_banded(**schedule, bands=bands, error=error)
    best = score(noise, error, **schedule)

    def loss(steps):
        column = np.cumsum(np.abs(np.append(steps, 1.0))[::-1])[::-1]
        candidate = Banded(coefficients=(1.0, *(column[1:] / column[0])))
        return score(candidate, error, **schedule)

    rng = np.random.default_rng(0)
    for _ in range(3):
        found = optimize.minimize(loss, rng.uniform(0, 2, size=bands - 1), method="Nelder-Mead")
        assert best <= found.fun * (1 + 1e-6)


def test_gradient():
    rng = np.random.default_rng(0)
    column = np.sort(rng.uniform(0.2, 1, size=5))[::-1]
    workload, starts = toeplitz.prefix_sums(17, momentum=0.3), np.array([0, 4, 8])
    counted = rng.uniform(size=17)
    for function in (
        lambda c: banded._error(c, workload, counted),
        lambda c: banded._squared(c, 17, starts),
    ):
        truth = optimize.approx_fprime(column, lambda c, f=function: f(c)[0], 1e-7)
        np.testing.assert_allclose(function(column)[1], truth, rtol=1e-4)


def test_streaming_equals_dense():
    noise = optimal_banded(rounds=50, min_separation=8, max_participations=3, bands=5)
    draws = np.random.default_rng(0).normal(size=[50, 4])
    released: list[np.ndarray] = []
    for t, draw in enumerate(draws):
        released.append(
            draw - sum(c * released[t - j] for j, c in enumerate(noise.coefficients) if 0 < j <= t)
        )
    dense = linalg.toeplitz(noise.column(50), np.zeros(50))
    np.testing.assert_allclose(released, np.linalg.solve(dense, draws), atol=1e-9)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"bands": 0}, "`bands` must be in 1..rounds = 2000, got 0"),
        ({"bands": 2001}, "`bands` must be in 1..rounds"),
        ({"bands": 2, "min_separation": 0}, "`min_separation`"),
        ({"bands": 2, "error": "median"}, "`error`"),
    ],
)
def test_wrong_schedules_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        optimal_banded(**(GBOARD | change))


def test_rising_coefficients_are_refused():
    with pytest.raises(ValueError, match="never increasing"):
        Banded(coefficients=(1.0, 0.2, 0.4))
