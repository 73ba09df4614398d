"""Margins: parsing, and the verdicts of intervals."""

import math

import numpy as np
import pytest

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.results.non_inferiority import Margin, check_lines, parse_margins
from tff_keyboard.evaluation.statistics.jackknife import Interval, difference_interval
from tff_keyboard.storage.errors import CheckFailed, UsageError


def interval(low, high):
    return Interval((low + high) / 2, low, high, 0.01, 9)


@pytest.mark.parametrize(
    ("metric", "points", "low", "high", "verdict"),
    [
        ("kss", 0.2, -0.002, 0.01, "no worse"),
        ("kss", 0.2, -0.00201, 0.01, "undecided"),
        ("kss", 0.2, -0.009, -0.002, "undecided"),
        ("kss", 0.2, -0.009, -0.00201, "worse"),
        ("kss", 0.0, 0.0, 0.0, "no worse"),
        ("mrr_at_3_no_eos", 0.2, -0.2, 0.1, "no worse"),  # not in percent
        ("perplexity", 5, 0.9, 1.05, "no worse"),
        ("perplexity", 5, 0.9, 1.0501, "undecided"),
        ("perplexity", 5, 1.0501, 1.2, "worse"),
        ("kss", 0.2, math.nan, math.nan, "undecided"),
    ],
)
def test_only_an_interval_within_the_margin_is_no_worse(metric, points, low, high, verdict):
    assert Margin(METRICS[metric], points).verdict(interval(low, high)) == verdict


def test_parses_margins():
    found = parse_margins("top-1:0,top-3:0.2, kss:1.5,perplexity:3")
    assert [(margin.metric.name, margin.points) for margin in found] == [
        ("recall_at_1_no_eos", 0.0),
        ("recall_at_3_no_eos", 0.2),
        ("kss", 1.5),
        ("perplexity", 3.0),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not one of the metrics"),
        (
            "top-4:0.2",
            "'top-4' is not one of the metrics top-1, top-3, tap-counted, recall_at_1_no_eos",
        ),
        ("oov_rate:1", "'oov_rate' is not one of the metrics"),
        ("recall_at_1_all:1", "'recall_at_1_all' is not one of the metrics"),  # not in comparisons
        ("kss", "margin of 'kss' must be a number >= 0"),
        ("kss:much", "must be a number"),
        ("kss:-1", "must be a number >= 0"),
        ("kss:nan", "must be a number"),
        ("kss:0.2,,top-3:1", "'' is not one of the metrics"),
    ],
)
def test_rejects_invalid_margins(text, message):
    with pytest.raises(UsageError, match=message):
        parse_margins(text)


def test_loss_equal_to_the_margin_passes_in_one_of_forty_cases():
    """A loss of exactly the margin passes with a probability of 2.5 %, as in the source."""
    random = np.random.default_rng(0)
    margin = parse_margins("kss:2")[0]
    people, words = 40, np.full(40, 100.0)
    passed = 0
    for _ in range(2000):
        old = random.normal(50.0, 5.0, people)
        new = old + random.normal(-2.0, 3.0, people)  # in hundreds: a loss of 2 points
        found = difference_interval(new, words, old, words)
        passed += margin.verdict(found) == "no worse"
    assert passed / 2000 == pytest.approx(0.025, abs=0.01)


def test_nothing_to_check_passes():
    check_lines([])


def test_a_failure_names_model_metric_and_verdict():
    from tff_keyboard.evaluation.results.non_inferiority import GateLine

    margin = parse_margins("kss:0.2")[0]
    lines = [
        GateLine("new", margin, interval(-0.01, -0.005), "worse"),
        GateLine("newer", margin, interval(-0.01, 0.01), "undecided"),
        GateLine("newest", margin, interval(0.0, 0.01), "no worse"),
    ]
    with pytest.raises(CheckFailed, match=r"new kss: worse, newer kss: undecided\. Undecided: too"):
        check_lines(lines)
    assert str(lines[0]).startswith("new: keystrokes saved, difference -0.750 [-1.000, -0.500]")
