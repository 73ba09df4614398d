"""Learning rates as functions of the round: values, limits, and that only the round counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tff_keyboard.algorithms.schedules import factor, is_constant
from tff_keyboard.parts.schedule import Constant, Cosine

WARMUP = st.integers(0, 20)
LOWEST = st.floats(0, 1)
SCHEDULES = st.one_of(
    st.builds(Constant, warmup_rounds=WARMUP),
    st.builds(
        lambda w, r, low: Cosine(warmup_rounds=w, rounds=w + r, lowest=low),
        WARMUP,
        st.integers(1, 100),
        LOWEST,
    ),
)


@given(SCHEDULES, st.integers(1, 1000))
def test_rises_linearly_then_never_rises_again(schedule, round_num):
    now, later = factor(schedule, round_num), factor(schedule, round_num + 1)
    assert 0 <= now <= 1
    if round_num < schedule.warmup_rounds:
        assert now == round_num / schedule.warmup_rounds
        assert later > now
    else:
        assert later <= now
        assert now >= getattr(schedule, "lowest", 0.0)


@given(SCHEDULES)
def test_the_full_rate_is_reached_when_the_warm_up_ends(schedule):
    assert factor(schedule, max(1, schedule.warmup_rounds)) == pytest.approx(
        1.0 if schedule.warmup_rounds else factor(schedule, 1)
    )


def test_a_cosine_of_unknown_length_has_no_rates():
    with pytest.raises(ValueError, match=r"schedule\.rounds"):
        factor(Cosine(warmup_rounds=3), 4)


def test_cosine_ends_at_its_lowest_factor_and_stays():
    schedule = Cosine(rounds=100, lowest=0.0)
    assert factor(schedule, 50) == pytest.approx(0.5)
    assert factor(schedule, 25) == pytest.approx((1 + math.cos(math.pi / 4)) / 2)
    assert factor(schedule, 100) == pytest.approx(0.0, abs=1e-15)
    assert factor(schedule, 10**6) == factor(schedule, 100)


def test_constant_means_no_change_at_all():
    assert is_constant(Constant())
    assert is_constant(Constant(warmup_rounds=1))
    assert not is_constant(Constant(warmup_rounds=2))
    assert not is_constant(Cosine(rounds=3))


@pytest.mark.parametrize(
    "build, words",
    [
        (lambda: Constant(warmup_rounds=-1), "`schedule.warmup_rounds` must be >= 0"),
        (lambda: Cosine(rounds=4, warmup_rounds=4), "`schedule.rounds` must be 0 or > "),
        (lambda: Cosine(rounds=4, lowest=1.5), r"`schedule.lowest` must be in \[0, 1\]"),
    ],
)
def test_rejects(build, words):
    with pytest.raises(ValueError, match=words):
        build()


def test_rounds_begin_at_one():
    with pytest.raises(ValueError, match="`round_num` must be >= 1, got 0"):
        factor(Constant(), 0)
