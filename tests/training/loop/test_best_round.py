"""Best rounds and rejected rounds."""

import math

import pytest

from tff_keyboard.training.loop import best_round, errors

NAN = math.nan


@pytest.mark.parametrize(
    "mode, values, expected",
    [
        ("max", [0.1, 0.3, 0.2], (2, 1)),
        ("min", [0.1, 0.3, 0.2], (1, 2)),
        ("max", [0.1, 0.1], (1, 1)),  # a tie: the earlier round
        ("max", [NAN, 0.1, NAN], (2, 1)),
        ("min", [NAN, NAN], (0, 2)),
        ("min", [-math.inf, -5.0], (1, 1)),
    ],
)
def test_best(mode, values, expected):
    best = best_round.BestMetric("evaluation/recall", mode)
    loop = best_round.LoopState()
    for round_num, value in enumerate(values, start=1):
        loop = loop.after_comparison(best, value, round_num)
    assert (loop.best_round, loop.comparisons_since_best) == expected


def test_rejected_rounds_in_a_row():
    loop = best_round.LoopState()
    for rejected in [True, True, False, True]:
        loop = loop.after_round(rejected=rejected)
    assert (loop.rejected_rounds, loop.rejected_in_a_row) == (3, 1)


@pytest.mark.parametrize(
    "row, expected",
    [
        ({"finalizer/update_non_finite": 1}, True),
        ({"finalizer/update_non_finite": 0, "client_work/train/loss": 2.0}, False),
        ({"aggregator/rejected": 1.0}, True),
        ({"aggregator/rejected": 0, "aggregator/rejected_rounds": 3}, False),
        ({"aggregator/norm": NAN, "cohort": "update_non_finite"}, False),
    ],
)
def test_is_rejected(row, expected):
    assert best_round.is_rejected(row) is expected


def test_metric_value():
    best = best_round.BestMetric("evaluation/recal")
    with pytest.raises(errors.ProgramError, match=r"'evaluation/recal'.*evaluation/recall"):
        best_round.metric_value(best, {"evaluation/recall": 0.5, "cohort": "x"})
    assert best_round.metric_value(best_round.BestMetric("a"), {"a": 3}) == 3.0


def test_diverged_model_is_never_best():
    best = best_round.BestMetric("evaluation/recall")
    loop = best_round.LoopState()
    for round_num, (recall, perplexity) in enumerate([(0.1, 50.0), (0.2, math.nan)], start=1):
        row = {"evaluation/recall": recall, "evaluation/perplexity": perplexity}
        loop = loop.after_comparison(best, best_round.metric_value(best, row), round_num)
    assert (loop.best_round, loop.best_value, loop.comparisons_since_best) == (1, 0.1, 1)


def test_rejects():
    with pytest.raises(ValueError, match="`mode`"):
        best_round.BestMetric("a", "best")
    with pytest.raises(ValueError, match="`patience`"):
        best_round.BestMetric("a", patience=0)
