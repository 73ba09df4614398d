"""The table of mechanisms in docs/privacy.md: the guarantee of a launch, computed in seconds."""

import pytest

from tests.support.fakes import ledger_header
from tests.support.own_seconds import own_seconds
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.mechanisms.blt import optimal_blt
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptive

# The size of Gboard's launch (Xu et al. 2023, https://arxiv.org/abs/2305.18465).
ROUNDS, SEPARATION, PARTICIPATIONS, COHORT = 2000, 313, 6, 6500
SCHEDULE = {"min_separation": SEPARATION, "max_participations": PARTICIPATIONS}
CORRELATED = {"noise_multiplier": 7.0, "rounds": ROUNDS, "delta": 1e-10, **SCHEDULE}


@pytest.mark.parametrize("mechanism", [Gaussian(), GaussianAdaptive()], ids=str)
def test_launch_with_secret_cohorts(mechanism):
    header = ledger_header(
        mechanism=mechanism,
        noise_multiplier=7.0,
        delta=1e-10,
        population=COHORT * SEPARATION,
        clients_per_round=COHORT,
        selected_per_round=COHORT,
    )
    with own_seconds() as spent:
        found = guarantee_of(header, ROUNDS)
        assert spent() < 5  # measured 0.4 to 1.2, depending on the machine
    assert f"{found.epsilon:.2f}" == "0.52"


def test_launch_with_correlated_noise():
    with own_seconds() as spent:
        blt = optimal_blt(rounds=ROUNDS, **SCHEDULE)
        assert spent() < 10  # measured 0.3
    assert f"{accounting.tree_gaussian(**CORRELATED).epsilon:.2f}" == "8.90"
    assert f"{accounting.matrix_gaussian(noise=blt, **CORRELATED).epsilon:.2f}" == "4.28"
