"""The part of a budget that runs on disk have used, and the lines about it."""

import json

import pytest

from tff_keyboard.storage import names
from tff_keyboard_lab.study.plan.study_file import Budget
from tff_keyboard_lab.study.runs import budget

HEAD = "round,compute_seconds,round_seconds\n"


def made_run(path, rounds=(), timings=""):
    """Creates a run with the given rounds in its metrics and the given lines in its timings."""
    path.mkdir(parents=True)
    lines = [
        json.dumps({"round": number, "tokens": tokens, "client_work/train/tokens": tokens})
        for number, tokens in enumerate(rounds, start=1)
    ]
    (path / names.METRICS).write_text("".join(f"{line}\n" for line in lines))
    if timings:
        (path / names.TIMINGS).write_text(HEAD + timings)
    return path


def test_sums_all_runs_and_skips_those_that_are_not_there(tmp_path):
    first = made_run(tmp_path / "a", (100_000, 150_000), "1,1.0,1800\n2,1.0,900\n")
    second = made_run(tmp_path / "b", (250_000,), "1,2.0,900\n")
    used = budget.used_by([first, second, tmp_path / "none"])
    assert used == (1.0, 0.5)


@pytest.mark.parametrize(
    "timings, seconds",
    [
        ("", {}),
        ("1,1.0,2.5\n2,1.0,\n", {1: 2.5}),  # not measured
        ("1,1.0,2.5\n2,1.", {1: 2.5}),  # cut by a kill
        ("2,1.0,2.5\n", {2: 2.5}),  # that of the first round was lost
        ("1,1.0,2.5\n\x00\x00,x,y\n", {1: 2.5}),
    ],
)
def test_clocks_with_gaps(tmp_path, timings, seconds):
    assert budget.seconds_by_round(made_run(tmp_path / "a", (5, 5), timings)) == seconds


def test_withheld_rows_of_a_private_run_count(tmp_path):
    run = made_run(tmp_path / "a")
    (run / names.METRICS).write_text('{"round": 1}\n')
    (run / names.WITHHELD_METRICS).write_text('{"round": 1, "tokens": 7}\n')
    assert budget.tokens_by_round(run) == {1: 7.0}


def test_hours_of_damaged_metrics_count_all_the_same(tmp_path):
    run = made_run(tmp_path / "a", (5,), "1,1.0,3600\n")
    (run / names.METRICS).write_text("nonsense\n")
    assert budget.used_by([run]) == (1.0, 0.0)


@pytest.mark.parametrize(
    "limit, used, keys",
    [
        (Budget(hours=1.0), (0.99, 1e6), []),
        (Budget(hours=1.0), (1.0, 0.0), ["budget.hours"]),
        (Budget(tokens_m=5.0), (1e6, 4.9), []),
        (Budget(tokens_m=5.0, hours=2.0), (1.0, 5.1), ["budget.tokens_m"]),
        (Budget(tokens_m=5.0, hours=2.0), (2.0, 5.0), ["budget.hours", "budget.tokens_m"]),
    ],
)
def test_no_limit_is_never_used_up(limit, used, keys):
    assert budget.used_up(limit, budget.Amount(*used)) == keys


def test_a_line_for_each_limit_there_is():
    used, to_go = budget.Amount(0.5, 12.0), budget.Amount(3.0, 30.0)
    assert budget.compare(Budget(hours=2.0, tokens_m=50.0), used, to_go) == (
        "Budget: 0.50 of 2.00 hours used, 3.00 to go: 1.50 hours too few; "
        "12.00 of 50.00 M tokens used, 30.00 to go: enough."
    )
