"""Plans reach their targets exactly; variances are those of the noise streams."""

import dataclasses

import numpy as np
import pytest

from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims import planning
from tff_keyboard.privacy.claims.planning import Schedule, UnreachableTargetError, plan
from tff_keyboard.privacy.mechanisms.noise_streams import keyed_draw
from tff_keyboard.privacy.registry.blt import BltConfig, BltMechanism
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.privacy.registry.tree import Tree

SMALL = Schedule(rounds=64, cohort=10, population=1000, min_separation=16, delta=1e-6)
GBOARD = Schedule(
    rounds=2000,
    cohort=6500,
    population=10_000_000,
    min_separation=313,
    delta=1e-10,
)


@pytest.mark.parametrize("name", ["blt", "gaussian", "tree"])
def test_epsilon_is_just_below_the_target(name):
    found = plan(name, SMALL, target_epsilon=3.0)
    assert 2.98 < found.guarantee.epsilon <= 3.0
    less = plan(name, SMALL, target_epsilon=6.0)
    assert less.noise_multiplier < found.noise_multiplier


@pytest.mark.slow
def test_epsilon_depends_on_the_servers_momentum():
    """A run with momentum uses another matrix, which costs more at the same multiplier."""
    schedule = Schedule(rounds=40, cohort=50, population=466, min_separation=8, delta=1e-4)
    matrix = BltConfig().mechanism(rounds=40, min_separation_rounds=8, momentum=0.9).matrix()

    def epsilon_of_the_run(found):
        return accounting.matrix_gaussian(
            noise=matrix,
            noise_multiplier=found.noise_multiplier,
            rounds=40,
            delta=1e-4,
            min_separation=8,
        ).epsilon

    assert epsilon_of_the_run(plan("blt", schedule, target_epsilon=8)) > 12
    found = plan("blt", schedule, target_epsilon=8, momentum=0.9)
    assert 7.9 < epsilon_of_the_run(found) <= 8


def test_correlated_noise_has_the_smallest_error():
    errors = {
        name: plan(name, GBOARD, target_epsilon=5.0).error for name in ("gaussian", "tree", "blt")
    }
    assert errors["blt"] < 0.66 * errors["tree"] < 0.3 * errors["gaussian"]


@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(),
        Tree(),
        BltMechanism(decays=(0.9,), scales=(0.3,)),
    ],
    ids=str,
)
def test_variances_are_those_of_the_stream(mechanism):
    noise = mechanism.noise(keyed_draw(bytes(32)), 40_000)
    running = np.cumsum([noise(t) for t in range(8)], axis=0)
    np.testing.assert_allclose(mechanism.iterate_variances(8), running.var(axis=1), rtol=0.05)


@pytest.mark.slow
def test_uniform_cohorts_are_amplified():
    one = Schedule(rounds=50, cohort=10, population=10_000)
    sampled = plan("gaussian", one, target_epsilon=4.0)
    assert sampled.guarantee.method == "RDP"
    unsampled = plan("gaussian", Schedule(**{**vars(one), "min_separation": 2}), target_epsilon=4.0)
    assert sampled.noise_multiplier < unsampled.noise_multiplier


@pytest.mark.parametrize("name", ["gaussian", "tree"])
def test_a_target_below_the_accountings_smallest_epsilon_is_refused(name):
    """Epsilon 0.015 gave noise 30,992 and epsilon 0: RDP has no orders above 1024."""
    schedule = Schedule(rounds=50, cohort=10, population=10_000, delta=1e-10)
    with pytest.raises(UnreachableTargetError, match=r"target-epsilon=0\.01 cannot") as error:
        plan(name, schedule, target_epsilon=0.01)
    assert "\n" not in str(error.value)
    smallest = error.value.smallest_epsilon
    if name == "tree":  # the conversion of Canonne et al. 2020 at the largest order
        floor = np.log1p(-1 / 1024) - np.log(1e-10 * 1024) / 1023
        assert smallest == pytest.approx(floor, rel=1e-3)
    reached = plan(name, schedule, target_epsilon=1.05 * smallest)
    assert 0.99 * smallest <= reached.guarantee.epsilon <= 1.05 * smallest
    text = planning.plans_table([error.value, reached])
    assert f"not reachable: epsilon >= {smallest:.3g}" in text
    assert " 0.000" not in text


def test_an_exact_mechanism_reaches_small_targets():
    schedule = Schedule(rounds=50, cohort=10, population=10_000, delta=1e-10)
    found = plan("blt", schedule, target_epsilon=0.0005)
    assert 0.00049 < found.guarantee.epsilon <= 0.0005
    assert planning.plans_table([found]).splitlines()[1].split()[6] == "0.0005"


def test_the_printed_multiplier_reaches_the_target():
    found = plan("blt", SMALL, target_epsilon=3.0)
    assert float(f"{found.noise_multiplier:.4g}") == found.noise_multiplier
    for number, rounded in [(1.87401, 1.875), (1.874, 1.874), (30992.3, 31000.0), (0.1, 0.1)]:
        assert planning._rounded_up(number) == rounded


def test_over_selection_counts_for_the_population_and_amplification():
    schedule = Schedule(rounds=8, cohort=10, population=160, over_selection=1.5)
    assert schedule.selected == 15
    around = planning.schedules_around(schedule)
    assert [s.min_separation for s in around["separation"]] == [1, 2, 4]
    with pytest.raises(ValueError, match="must be >= 165, got 160: each round takes 15 clients"):
        dataclasses.replace(schedule, min_separation=11)


def test_devices_have_no_population_and_no_amplification():
    schedule = Schedule(rounds=8, cohort=10, population=0, min_separation=4, checks_in=True)
    found = plan("gaussian", schedule, target_epsilon=3.0)
    assert found.guarantee.rho == pytest.approx(2 / (2 * found.noise_multiplier**2))
    assert len(planning.schedules_around(schedule)["cohort"]) == 5
    with pytest.raises(ValueError, match="`population` must be 0 if devices check in, got 9"):
        dataclasses.replace(schedule, population=9)


def test_schedules_around_keep_to_the_population():
    around = planning.schedules_around(SMALL)
    assert [s.rounds for s in around["rounds"]] == [16, 32, 64, 128, 256]
    assert [(s.cohort, s.min_separation) for s in around["cohort"]] == [
        (2, 16),
        (5, 16),
        (10, 16),
        (20, 16),
        (40, 16),
    ]
    assert [s.min_separation for s in around["separation"]] == [4, 8, 16, 32, 64]
    crowded = planning.schedules_around(
        Schedule(rounds=8, cohort=10, population=160, min_separation=16)
    )
    assert [(s.cohort, s.min_separation) for s in crowded["cohort"]][-1] == (40, 4)
    assert max(s.min_separation for s in crowded["separation"]) == 16


def test_table_has_one_row_per_plan():
    found = [plan(name, SMALL, target_epsilon=3.0) for name in ("tree", "blt")]
    lines = planning.plans_table(found).splitlines()
    assert len(lines) == 3
    assert lines[0].split()[0] == "mechanism"
    assert lines[2].split()[0] == "blt"
    assert float(lines[2].split()[4]) == pytest.approx(found[1].noise_multiplier, rel=1e-3)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"rounds": 0}, "`rounds` must be >= 1, got 0"),
        ({"delta": 1.0}, "`delta` must be in"),
        ({"population": 159}, "`population` must be >= 160, got 159"),
        ({"population": 0}, "`population` must be >= 1, got 0"),
        ({"over_selection": 0.5}, "`over_selection` must be >= 1, got 0.5"),
    ],
)
def test_impossible_schedules_are_refused(change, words):
    with pytest.raises(ValueError, match=words):
        Schedule(**({"rounds": 8, "cohort": 10, "population": 160, "min_separation": 16} | change))
