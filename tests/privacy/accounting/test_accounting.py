"""Epsilon against published figures, dp_accounting and limiting cases."""

import math
import subprocess
import sys

import dp_accounting
import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from tests.support.examples import examples
from tests.support.own_seconds import own_seconds
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.accounting.guarantee import Guarantee


def gaussian_delta(epsilon, sigma):
    """Computes delta by Balle & Wang 2018, Theorem 8, for sensitivity 1."""
    return stats.norm.cdf(0.5 / sigma - epsilon * sigma) - math.exp(epsilon) * stats.norm.cdf(
        -0.5 / sigma - epsilon * sigma
    )


def test_gboard_launch_to_the_printed_digits_in_seconds():
    with own_seconds() as spent:
        launch = accounting.tree_gaussian(
            noise_multiplier=7.0, rounds=2000, delta=1e-10, min_separation=313, max_participations=6
        )
        assert f"{launch.rho:.2f}" == "0.81"
        assert f"{launch.epsilon:.2f}" == "8.90"
        assert spent() < 10


def test_exact_gaussian_is_tighter_than_the_rdp_conversion():
    exact = accounting.epsilon_of_zcdp(79 / 98, 1e-10, method="exact Gaussian")
    assert exact < accounting.epsilon_of_zcdp(79 / 98, 1e-10, method="RDP conversion")
    assert exact == pytest.approx(8.526, abs=2e-3)


@pytest.mark.parametrize("sigma, delta", [(1.0, 1e-5), (4.0, 1e-6), (0.7, 1e-10)])
def test_exact_gaussian_matches_the_privacy_curve(sigma, delta):
    epsilon = accounting.epsilon_of_zcdp(1 / (2 * sigma**2), delta, method="exact Gaussian")
    truth = optimize.brentq(lambda e: gaussian_delta(e, sigma) - delta, 0, 60)
    assert epsilon == pytest.approx(truth, rel=1e-9)


@pytest.mark.parametrize("participations, noise", [(1, 4.0), (16, 8.0), (100, 5.0), (30, 2.0)])
@pytest.mark.parametrize("delta", [1e-5, 1e-10])
def test_closed_form_is_at_most_the_pld_bound(participations, noise, delta):
    exact = accounting.unsampled_gaussian(
        noise_multiplier=noise, participations=participations, delta=delta
    ).epsilon
    accountant = dp_accounting.pld.PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise), participations)
    bound = accountant.get_epsilon(delta)
    assert exact <= bound + 1e-6
    assert exact == pytest.approx(bound, rel=2e-3, abs=1e-3)


@examples(100)
@given(
    log_mu=st.floats(-6, 6),
    log_delta=st.floats(-100, -0.01),
)
def test_epsilon_is_the_smallest_with_allowed_delta(log_mu, log_delta):
    """Compares with 60 digits for any noise and delta; epsilon is never too small."""
    mu, delta = 10**log_mu, 10**log_delta
    epsilon = accounting.epsilon_of_zcdp(mu**2 / 2, delta, method="exact Gaussian")

    def exact_delta(epsilon):
        with mpmath.workdps(60):
            a, b = mu / mpmath.mpf(2) - epsilon / mpmath.mpf(mu), epsilon / mpmath.mpf(mu) + mu / 2
            return (
                mpmath.erfc(-a / mpmath.sqrt(2))
                - mpmath.exp(epsilon) * mpmath.erfc(b / mpmath.sqrt(2))
            ) / 2

    assert exact_delta(epsilon * (1 + 1e-9) + 1e-9) <= delta
    assert epsilon == 0 or exact_delta(epsilon * (1 - 1e-9) - 1e-9) >= delta


@pytest.mark.parametrize("noise, participations", [(0.01, 100), (1e-6, 10**6), (1e-150, 1)])
def test_tiny_noise_is_accounted_quickly(noise, participations):
    with own_seconds() as spent:
        guarantee = accounting.unsampled_gaussian(
            noise_multiplier=noise, participations=participations, delta=1e-6
        )
        assert spent() < 0.1
    # mu^2 / 2 + 4.75 mu: the privacy loss is normal, and Phi(4.75) = 1 - 1e-6.
    mu = math.sqrt(participations) / noise
    assert guarantee.epsilon == pytest.approx(mu**2 / 2 + 4.7534 * mu, rel=1e-3)
    assert math.isfinite(guarantee.epsilon)


def test_noise_whose_square_underflows_gives_infinite_epsilon():
    for noise in (1e-170, 5e-324):
        guarantee = accounting.unsampled_gaussian(
            noise_multiplier=noise, participations=1, delta=1e-6
        )
        assert guarantee.epsilon == math.inf


@pytest.mark.slow
def test_fixed_size_cohorts_are_accounted_for_replacement():
    """Replacing a client changes a sum of vectors of norm <= 1 by up to 2."""
    guarantee = accounting.fixed_size_gaussian(
        noise_multiplier=2.0, population=10_000, cohort=100, rounds=1000, delta=1e-6
    )
    assert guarantee.adjacency == accounting.REPLACE_ONE
    accountant = dp_accounting.rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    noise_over_sensitivity = dp_accounting.GaussianDpEvent(1.0)
    event = dp_accounting.SampledWithoutReplacementDpEvent(10_000, 100, noise_over_sensitivity)
    accountant.compose(event, 1000)
    assert guarantee.epsilon == pytest.approx(accountant.get_epsilon(1e-6), rel=1e-9)


def test_a_whole_population_drawn_every_round_is_never_below_the_plain_gaussian():
    """q = 1: the exact cost of replacement is that of z/2, without amplification."""
    everyone = accounting.fixed_size_gaussian(
        noise_multiplier=8.0, population=50, cohort=50, rounds=4, delta=1e-6
    )
    plain = accounting.unsampled_gaussian(noise_multiplier=4.0, participations=4, delta=1e-6)
    assert everyone.epsilon >= plain.epsilon


def test_one_tree_step_is_the_gaussian_mechanism():
    tree = accounting.tree_gaussian(noise_multiplier=2.0, rounds=1, delta=1e-6, min_separation=1)
    assert tree.rho == 1 / 8


def test_a_single_epoch_matches_dp_accounting():
    ours = accounting.tree_gaussian(
        noise_multiplier=4.0, rounds=128, delta=1e-6, min_separation=1, max_participations=1
    )
    event = dp_accounting.SingleEpochTreeAggregationDpEvent(4.0, 128)
    relation = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
    theirs = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation).compose(event)
    assert ours.epsilon == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-4)


GUARANTEES = {
    "tree": lambda z: accounting.tree_gaussian(
        noise_multiplier=z, rounds=100, delta=1e-6, min_separation=10
    ),
    "fixed size": lambda z: accounting.fixed_size_gaussian(
        noise_multiplier=z, population=1000, cohort=20, rounds=100, delta=1e-6
    ),
}


@pytest.mark.parametrize(
    "target, name",
    [
        *[(target, "tree") for target in (0.5, 8.0)],
        pytest.param(0.5, "fixed size", marks=pytest.mark.slow),
        pytest.param(8.0, "fixed size", marks=pytest.mark.slow),  # the same search, but slow
    ],
)
def test_calibrated_noise_just_reaches_the_target(target, name):
    guarantee = GUARANTEES[name]
    noise = accounting.calibrate_noise_multiplier(guarantee, target_epsilon=target)
    assert guarantee(noise).epsilon <= target
    assert guarantee(noise * 0.99).epsilon > target


@examples(30)
@given(
    noise=st.floats(0.5, 20),
    rounds=st.integers(1, 200),
    separation=st.integers(1, 60),
    participations=st.integers(1, 8),
)
def test_more_separation_fewer_rounds_never_cost_more(noise, rounds, separation, participations):
    def rho(**changes):
        arguments = {
            "noise_multiplier": noise,
            "rounds": rounds,
            "delta": 1e-6,
            "min_separation": separation,
            "max_participations": participations,
        }
        return accounting.tree_gaussian(**(arguments | changes)).rho

    assert rho(min_separation=separation + 1) <= rho()
    assert rho(max_participations=participations + 1) >= rho()
    assert rho(rounds=rounds + 1) >= rho()


def test_zero_rounds_and_zero_noise():
    for rounds, noise, expected in [(0, 1.0, 0.0), (3, 0.0, math.inf)]:
        for guarantee in (
            accounting.tree_gaussian(
                noise_multiplier=noise, rounds=rounds, delta=1e-6, min_separation=1
            ),
            accounting.fixed_size_gaussian(
                noise_multiplier=noise, population=100, cohort=10, rounds=rounds, delta=1e-6
            ),
            accounting.unsampled_gaussian(
                noise_multiplier=noise, participations=rounds, delta=1e-6
            ),
        ):
            assert guarantee.epsilon == expected


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"noise_multiplier": -1.0}, "`noise_multiplier` must be >= 0, got -1.0"),
        ({"noise_multiplier": math.nan}, "`noise_multiplier`"),
        ({"delta": 0.0}, r"`delta` must be in \(0, 1\), got 0.0"),
        ({"min_separation": 0}, "`min_separation` must be >= 1 round, got 0"),
        ({"rounds": -1}, "`rounds` must be >= 0, got -1"),
        ({"method": "guess"}, "`method`"),
    ],
)
def test_wrong_arguments_are_named(changes, words):
    arguments = {"noise_multiplier": 1.0, "rounds": 4, "delta": 1e-6, "min_separation": 1}
    with pytest.raises(ValueError, match=words):
        accounting.tree_gaussian(**(arguments | changes))


def test_unreachable_target_is_refused():
    with pytest.raises(ValueError, match="No noise multiplier"):
        accounting.calibrate_noise_multiplier(
            lambda z: Guarantee(epsilon=9.0, delta=0.1, adjacency="none", method="constant"),
            target_epsilon=1.0,
        )


@pytest.mark.slow
def test_accounting_imports_no_tensorflow():
    code = (
        "import sys, tff_keyboard.privacy.accounting.accounting, "
        "tff_keyboard.privacy.ledger.ledger;"
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
