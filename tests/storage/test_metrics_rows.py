"""Rows of rounds 1, 2, 3, ...; any other content is reported in one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.storage import metrics_rows
from tff_keyboard.storage.errors import RunDirectoryError

ROWS = [{"round": n, "loss": 1 / n, "cohort": "é,\n"} for n in range(1, 6)]
CONTENT = b"".join(map(metrics_rows.row_line, ROWS))


def test_reads_what_was_written(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert metrics_rows.read_rows(path) == []
    path.write_bytes(CONTENT)
    assert metrics_rows.read_rows(path) == metrics_rows.read_sound_rows(path) == ROWS


@examples(50)
@given(length=st.integers(0, len(CONTENT)))
def test_incomplete_last_line_is_ignored(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "metrics.jsonl"
    path.write_bytes(CONTENT[:length])
    assert metrics_rows.read_rows(path) == ROWS[: CONTENT[:length].count(b"\n")]


@pytest.mark.parametrize(
    "line, message",
    [
        (b"", "line 3 is damaged"),
        (b"[]", "line 3 is damaged"),
        (b"\xff", "line 3 is damaged"),
        (b"[" * 100_000, "line 3 is damaged"),
        (b'{"loss": 1}', "line 3 is damaged"),
        (b'{"round": true}', "line 3 is damaged"),
        (b'{"round": 3, "loss": null}', "line 3 is damaged"),
        (b'{"round": 2}', "line 3 has round 2: round 3 is missing"),
        (b'{"round": 7}', "line 3 has round 7: round 3 is missing"),
    ],
    ids=str,
)
def test_rows_end_before_the_first_damage(tmp_path, line, message):
    path = tmp_path / "metrics.jsonl"
    lines = CONTENT.splitlines()
    path.write_bytes(b"\n".join([*lines[:2], line, *lines[3:]]) + b"\n")
    assert metrics_rows.read_sound_rows(path) == ROWS[:2]
    with pytest.raises(RunDirectoryError, match=f"metrics.jsonl, {message}"):
        metrics_rows.read_rows(path)


def test_series_and_totals():
    rows = [{"round": 1, "a": 2}, {"round": 2}, {"round": 3, "a": 0.5}]
    assert metrics_rows.series(rows, "a") == ([1, 3], [2.0, 0.5])
    assert metrics_rows.running_total(rows, "a") == {1: 2.0, 3: 2.5}
    assert metrics_rows.series(rows, "b") == ([], [])
    assert metrics_rows.running_total(rows, "b") == {}


def test_nan_is_a_valid_value():
    assert "NaN" in metrics_rows.row_line({"round": 1, "loss": float("nan")}).decode()
    assert json.loads(metrics_rows.row_line(ROWS[0])) == ROWS[0]


def test_total_adds_up_a_metric_wherever_it_is_nested():
    rows = [{"round": 1, "tokens": 3, "a/b/tokens": 0.5, "tokens_seen": 9}, {"tokens": 4}]
    assert metrics_rows.total(rows, "tokens") == 7.5
    assert metrics_rows.total([{"cohort": "ab"}], "cohort") == 0.0
