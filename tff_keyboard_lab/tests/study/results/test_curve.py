"""Values derived from a validation curve."""

import math

import pytest

from tff_keyboard_lab.study.results import curve
from tff_keyboard_lab.study.results.curve import Curve


def of(values, rounds=None):
    rounds = rounds or [5 * (i + 1) for i in range(len(values))]
    return Curve(rounds, [100.0 * r for r in rounds], values)


def test_reads_the_metrics_of_a_run():
    rows = [
        {"round": 1, "tokens": 10},
        {"round": 2, "tokens": 20, "evaluation/perplexity": 300.0},
        {"round": 3, "tokens": 5, "evaluation/perplexity": 200.0},
    ]
    assert curve.of_rows(rows) == Curve([2, 3], [30.0, 35.0], [300.0, 200.0])


@pytest.mark.parametrize(
    "values, gain, flat",
    [
        ([400, 200, 100, 99.5], 0.005, True),
        ([400, 200, 100, 90], 0.1, False),
        ([400, 200, 100, 120], 0.0, True),  # it got worse: it will not get better
        ([400, 200, 100, 120, 80, 79, 78, 77.9], 1 - 77.9 / 79, False),
        ([400, 200, 100], math.nan, False),
        ([], math.nan, False),
    ],
)
def test_curve_without_gain_is_flat(values, gain, flat):
    actual = curve.gain_of_last_quarter(of(values))
    assert actual == pytest.approx(gain, nan_ok=True)
    assert curve.is_flat(of(values), 0.01) is flat


def test_rounds_to_a_target():
    values = of([300.0, 190.0, 210.0, 150.0])
    assert curve.rounds_to(values, 200) == 10
    assert curve.rounds_to(values, 100) is None
