"""The states of a round as functions of seats, uploads and the clock."""

import dataclasses

import pytest

from tff_keyboard_fleet.round_server import rounds
from tff_keyboard_fleet.round_server.rounds import Round, RoundSettings

ROUND_SETTINGS = RoundSettings(
    goal=3, max_seats=4, min_reports=2, deadline_seconds=100, separation=1
)
NEW = Round(number=1, model="m", plan="p")


def after(seats, uploads, seconds):
    """Returns a round whose first seat was given at 1,000 s."""
    round_ = NEW
    for _ in range(seats):
        round_ = rounds.with_seat(round_, ROUND_SETTINGS, 1000.0)
    for _ in range(uploads):
        round_ = rounds.with_upload(round_, ROUND_SETTINGS)
    return rounds.at(round_, ROUND_SETTINGS, 1000.0 + seconds)


@pytest.mark.parametrize(
    ("seats", "uploads", "seconds", "state"),
    [
        (0, 0, 1e9, rounds.SELECTING),  # nobody came: no clock runs
        (3, 0, 0, rounds.SELECTING),
        (4, 0, 0, rounds.RUNNING),  # all seats are taken
        (1, 0, 50, rounds.SELECTING),  # too few seats to be enough
        (2, 0, 50, rounds.RUNNING),
        (2, 0, 49.9, rounds.SELECTING),
        (4, 2, 99.9, rounds.RUNNING),
        (4, 3, 0, rounds.AGGREGATING),  # the goal
        (3, 3, 0, rounds.AGGREGATING),
        (4, 2, 100, rounds.AGGREGATING),  # enough at the deadline
        (4, 1, 100, rounds.ABANDONED),
        (1, 0, 100, rounds.ABANDONED),
    ],
)
def test_states(seats, uploads, seconds, state):
    actual = after(seats, uploads, seconds)
    assert (actual.state, actual.seats, actual.accepted) == (state, seats, uploads)


TOP = RoundSettings(
    goal=5, max_seats=6, min_reports=2, deadline_seconds=100, separation=1, top=lambda m: -(-m // 2)
)


@pytest.mark.parametrize(
    ("told", "uploads", "seconds", "state", "wanted"),
    [
        (4, 0, 0, rounds.SELECTING, 0),
        (5, 0, 0, rounds.SELECTING, 3),  # at the goal
        (4, 0, 49, rounds.SELECTING, 0),
        (4, 0, 50, rounds.RUNNING, 2),  # at half of the time
        (1, 0, 50, rounds.RUNNING, 0),
        (5, 2, 0, rounds.SELECTING, 3),
        (5, 3, 0, rounds.AGGREGATING, 3),
        (5, 2, 100, rounds.AGGREGATING, 3),  # 2 are the top of 4
        (5, 0, 100, rounds.ABANDONED, 3),
    ],
)
def test_losses_before_uploads(told, uploads, seconds, state, wanted):
    actual = NEW
    for _ in range(5):
        actual = rounds.with_seat(actual, TOP, 1000.0)
    for _ in range(told):
        actual = rounds.with_loss(actual, TOP)
    for _ in range(uploads):
        actual = rounds.with_upload(actual, TOP)
    actual = rounds.at(actual, TOP, 1000.0 + seconds)
    assert (actual.state, actual.wanted) == (state, wanted)


def test_members_include_devices_that_only_sent_a_loss():
    members = [
        TOP.members(Round(number=1, model="m", plan="p", told=5, accepted=n)) for n in range(4)
    ]
    assert members == [0, 2, 4, 5]


def test_an_abandoned_round_is_selected_anew():
    actual = rounds.next_attempt(after(4, 1, 100))
    assert actual == Round(number=1, attempt=2, model="m", plan="p")


def test_clock_restarts_after_a_server_restart():
    actual = rounds.begun_again(after(4, 1, 0), ROUND_SETTINGS, 1090.0)
    assert rounds.at(actual, ROUND_SETTINGS, 1189.0).state == rounds.RUNNING
    assert rounds.begun_again(NEW, ROUND_SETTINGS, 5.0) == NEW
    closed = after(3, 3, 0)
    assert rounds.begun_again(closed, ROUND_SETTINGS, 5.0) == closed


def test_a_clock_set_back_starts_anew():
    begun = after(4, 1, 0)
    actual = rounds.at(begun, ROUND_SETTINGS, begun.begun - 3600.0)
    assert actual == dataclasses.replace(begun, begun=begun.begun - 3600.0)
    assert rounds.seconds_left(actual, ROUND_SETTINGS, actual.begun + 40.0) == 60


def test_seconds_left():
    assert rounds.seconds_left(NEW, ROUND_SETTINGS, 5.0) == 100
    assert rounds.seconds_left(after(1, 0, 0), ROUND_SETTINGS, 1030.5) == 69
    assert rounds.seconds_left(after(1, 0, 0), ROUND_SETTINGS, 2000.0) == 0


@pytest.mark.parametrize(
    "change", [{"goal": 0}, {"min_reports": 4}, {"max_seats": 2}, {"deadline_seconds": 0}]
)
def test_impossible_terms_are_refused(change):
    with pytest.raises(ValueError, match="no round"):
        RoundSettings(**(vars(ROUND_SETTINGS) | change))
