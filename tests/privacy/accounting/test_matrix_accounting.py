"""Accounting of correlated noise: published launches, limits, partial runs."""

import math

import pytest

from tests.support.own_seconds import own_seconds
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.mechanisms.blt import Blt, optimal_blt

IDENTITY = Blt(decays=(0.0,), scales=(0.0,))


@pytest.mark.parametrize("rho, epsilon", [(0.1507, 3.424), (0.01434, 0.9936)])
def test_published_launches(rho, epsilon):
    """Gboard's two launches with matrix mechanisms, delta 1e-10."""
    found = accounting.epsilon_of_zcdp(rho, 1e-10, method="exact Gaussian")
    assert found == pytest.approx(epsilon, abs=5e-4)


def test_independent_noise_is_the_unsampled_gaussian():
    matrix = accounting.matrix_gaussian(
        noise=IDENTITY, noise_multiplier=3.0, rounds=20, delta=1e-6, min_separation=5
    )
    plain = accounting.unsampled_gaussian(noise_multiplier=3.0, participations=4, delta=1e-6)
    assert matrix == plain


def test_rho_grows_with_rounds_and_ends_at_the_schedule():
    noise = optimal_blt(rounds=2000, min_separation=313, max_participations=6)
    with own_seconds() as spent:
        rhos = [
            accounting.matrix_gaussian(
                noise=noise,
                noise_multiplier=7.0,
                rounds=rounds,
                delta=1e-10,
                min_separation=313,
                max_participations=6,
            ).rho
            for rounds in (0, 1, 313, 314, 1000, 2000)
        ]
        assert spent() < 1
    assert rhos[0] == 0
    assert rhos == sorted(rhos)
    assert rhos[1] == pytest.approx(1 / 98)


def test_no_noise_is_no_guarantee():
    guarantee = accounting.matrix_gaussian(
        noise=IDENTITY, noise_multiplier=0.0, rounds=3, delta=1e-6, min_separation=1
    )
    assert math.isinf(guarantee.epsilon)


def test_wrong_separation_is_named():
    with pytest.raises(ValueError, match="`min_separation` must be >= 1 round, got 0"):
        accounting.matrix_gaussian(
            noise=IDENTITY, noise_multiplier=1.0, rounds=3, delta=1e-6, min_separation=0
        )
