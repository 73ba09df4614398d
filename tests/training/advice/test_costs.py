"""Costs: arithmetic, and the trainings that they were fitted to."""

import pytest

from tff_keyboard.host.machine_speed import Machine
from tff_keyboard.training.advice import advice

KNOWN = Machine(cores=1, gflops=advice.GFLOPS)

# Rows of the word table, rounds of 16 people, M tokens, M targets of validation (both models),
# minutes of one core: docs/models/, docs/performance.md.
MEASURED = {
    "ubuntu_irc": (10_000, 7_600, 8.7, 0.4, 48),
    "blogs": (10_000, 15_600, 30.0, 3.0, 128),
    "gitter_fcc": (7_776, 7_295, 9.5, 4.4, 46),
    "chitchat": (10_000, 7_844, 10.8, 3.7, 60),
    "messages": (3_928, 2_400, 4.4, 2.5, 16),
    "persuasion": (2_134, 1_400, 3.2, 0.8, 8),
    "nus_sms": (10_000, 700, 1.0, 1.0, 7),
}


def of_run(rows, rounds, tokens, judged):
    return advice.training_cost(
        weights=96 * rows + 452_250,
        rounds=rounds,
        clients=16,
        targets=tokens * 1e6 / rounds / 16,
        validation_targets=judged * 1e6,
    )


@pytest.mark.parametrize("name", MEASURED)
def test_cost_of_whole_trainings_matches_measurements(name):
    *run, minutes = MEASURED[name]
    assert of_run(*run).core_minutes(KNOWN) == pytest.approx(minutes, rel=0.15)


# Clients, tokens and seconds of a round on two free cores: docs/performance.md, "One round".
ROUNDS = [(50, 469, 0.32), (50, 5_692, 0.70), (8, 19_403, 1.49)]


@pytest.mark.parametrize("clients, tokens, seconds", ROUNDS)
def test_cores_that_are_free_share_a_round_as_they_did(clients, tokens, seconds):
    def minutes(rounds):
        return advice.training_cost(
            weights=1_412_250,
            rounds=rounds,
            clients=clients,
            targets=tokens / clients,
            validation_targets=0,
        ).minutes(Machine(cores=2, gflops=advice.GFLOPS))

    assert 60 * (minutes(2) - minutes(1)) == pytest.approx(seconds, rel=0.15)


def test_a_machine_of_half_the_speed_takes_twice_as_long():
    cost = of_run(*MEASURED["chitchat"][:4])
    slow = Machine(cores=1, gflops=advice.GFLOPS / 2)
    assert cost.core_minutes(slow) == pytest.approx(2 * cost.core_minutes(KNOWN))
    assert cost.minutes(slow) == pytest.approx(2 * cost.minutes(KNOWN))


def test_cores_share_only_the_cost_of_clients():
    cost = advice.Cost(alone=60.0, shared=240.0)
    assert cost.minutes(KNOWN) == cost.core_minutes(KNOWN) == pytest.approx(5)
    four = Machine(cores=4, gflops=advice.GFLOPS)
    assert (cost.minutes(four), cost.core_minutes(four)) == pytest.approx((2, 5))


def test_each_part_counts():
    base = dict(weights=10**6, rounds=100, clients=4, targets=50.0, validation_targets=1e6)
    for key in base:
        more = advice.training_cost(**(base | {key: 2 * base[key]}))
        assert more.alone + more.shared > sum(vars(advice.training_cost(**base)).values())
