"""The table of mechanisms in docs/privacy.md: the guarantee of a launch, computed in seconds."""

import pytest

from tests.support.fakes import ledger_header
from tests.support.own_seconds import own_seconds
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.mechanisms.mechanism import NAMES, optimal_mechanism

# The size of Gboard's launch (Xu et al. 2023, https://arxiv.org/abs/2305.18465).
ROUNDS, SEPARATION, PARTICIPATIONS, COHORT = 2000, 313, 6, 6500
EPSILON = {
    "gaussian": "0.52",
    "gaussian_adaptive": "0.52",
    "tree": "8.90",
    "tree_adaptive": "7.21",
    "blt": "4.28",
}


@pytest.mark.parametrize("name", NAMES)
def test_launch_is_accounted_in_seconds(name):
    with own_seconds() as spent:
        chosen = optimal_mechanism(
            name,
            rounds=ROUNDS,
            min_separation=SEPARATION,
            max_participations=PARTICIPATIONS,
            restart_rounds=SEPARATION if name == "tree_adaptive" else 0,
        )
        assert spent() < 10  # measured 0.3
    correlated = not chosen.is_independent
    header = ledger_header(
        mechanism=chosen,
        noise_multiplier=7.0,
        delta=1e-10,
        population=COHORT * SEPARATION,
        clients_per_round=COHORT,
        selected_per_round=COHORT,
        uniform_sampling=not correlated,
        min_separation_rounds=SEPARATION if correlated else 1,
        max_participations=PARTICIPATIONS if correlated else 0,
    )
    with own_seconds() as spent:
        found = guarantee_of(header, ROUNDS)
        assert spent() < 5  # measured 0.4 to 1.2, depending on the machine
    assert f"{found.epsilon:.2f}" == EPSILON[name]
