"""Each round is on disk once, and a resumed run's files are those of one never stopped."""

import asyncio
import collections
import csv
import errno
import json
import math
import os

import numpy as np
import pytest
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.backend.event_processing import event_accumulator

from tests.support.examples import examples
from tff_keyboard.storage import metrics_rows
from tff_keyboard.training.loop import errors, release

ROWS = {  # evaluation every second round, so a column appears late
    1: {"loss": 2.5, "clients": 3, "cohort": "a,b"},
    2: {"loss": math.nan, "clients": 3, "cohort": 'c"d', "evaluation/recall": 0.125},
    3: {"loss": math.inf, "clients": 0, "cohort": ""},
    4: {"loss": 0.1, "clients": 2, "cohort": "e", "evaluation/recall": 0.25},
}


def metrics_release(directory):
    return release.MetricsRelease(directory / "metrics.jsonl", directory / "metrics.csv")


def write(manager, first, last, restart_after=None):
    manager.restart_after(first - 1 if restart_after is None else restart_after)
    for round_num in range(first, last + 1):
        asyncio.run(manager.release(ROWS[round_num], round_num))


def contents(directory):
    return (directory / "metrics.jsonl").read_bytes(), (directory / "metrics.csv").read_bytes()


@pytest.fixture
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uninterrupted")
    write(metrics_release(directory), 1, 4)
    return contents(directory)


def test_files(uninterrupted):
    jsonl, table = uninterrupted
    rows = [json.loads(line) for line in jsonl.splitlines()]
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    assert rows[0] == {"round": 1} | ROWS[1]
    assert math.isnan(rows[1]["loss"])
    lines = list(csv.reader(table.decode().splitlines()))
    assert lines[0] == ["round", "loss", "clients", "cohort", "evaluation/recall"]
    assert lines[1] == ["1", "2.5", "3", "a,b", ""]
    assert lines[2] == ["2", "NaN", "3", 'c"d', "0.125"]
    assert lines[3] == ["3", "Infinity", "0", "", ""]


@pytest.mark.parametrize("killed_after", [1, 2, 3, 4])
@pytest.mark.parametrize("checkpoint", [0, 1, 2, 3, 4])
def test_resume_gives_the_same_bytes(tmp_path, uninterrupted, killed_after, checkpoint):
    checkpoint = min(checkpoint, killed_after)
    write(metrics_release(tmp_path), 1, killed_after)
    write(metrics_release(tmp_path), checkpoint + 1, 4)
    assert contents(tmp_path) == uninterrupted


@examples(50)
@given(cut_jsonl=st.integers(0, 10**6), cut_csv=st.integers(0, 10**6))
def test_resume_after_a_kill_amid_a_line(tmp_path_factory, cut_jsonl, cut_csv):
    directory = tmp_path_factory.mktemp("cut")
    write(metrics_release(directory), 1, 4)
    expected = contents(directory)
    # A kill may cut the files at any byte; the checkpoint is never ahead of the complete lines.
    for name, cut in [("metrics.jsonl", cut_jsonl), ("metrics.csv", cut_csv)]:
        os.truncate(directory / name, cut % ((directory / name).stat().st_size + 1))
    complete = (directory / "metrics.jsonl").read_bytes().count(b"\n")
    manager = metrics_release(directory)
    assert len(manager.rows()) == complete
    write(manager, complete + 1, 4)
    assert contents(directory) == expected


def test_damaged_line_ends_the_sound_rows(tmp_path, uninterrupted):
    write(metrics_release(tmp_path), 1, 3)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'{"round": 2', b'{"rou'))
    assert metrics_release(tmp_path).rounds_on_disk() == 1
    write(metrics_release(tmp_path), 2, 4)
    assert contents(tmp_path) == uninterrupted


def test_full_disk(tmp_path, monkeypatch):
    manager = metrics_release(tmp_path)
    write(manager, 1, 2)

    def fsync(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(errors.ProgramError, match="No space left"):
        asyncio.run(manager.release(ROWS[3], 3))
    assert [row["round"] for row in metrics_rows.read_rows(tmp_path / "metrics.jsonl")][:2] == [
        1,
        2,
    ]


def test_timings(tmp_path):
    path = tmp_path / "timings.csv"
    manager = release.TimingsRelease(path, ["a_seconds", "b_seconds"])
    manager.restart_after(0)
    for round_num in (1, 2, 3):
        row = {"a_seconds": 0.5 * round_num, "b_seconds": None}
        asyncio.run(manager.release(row, round_num))
    path.write_bytes(path.read_bytes()[:-2] + b"\n\n")  # somebody looked at it
    path.write_bytes(path.read_bytes() + b"3,1.")  # a kill cut round 3
    manager = release.TimingsRelease(path, ["a_seconds", "b_seconds"])
    manager.restart_after(2)
    assert path.read_text() == "round,a_seconds,b_seconds\n1,0.5,\n2,1.0,\n"


def scalars(directory, tag):
    accumulator = event_accumulator.EventAccumulator(str(directory), purge_orphaned_data=True)
    accumulator.Reload()
    return {event.step: event.value for event in accumulator.Scalars(tag)}


def test_tensorboard_forgets_rounds_computed_again(tmp_path):
    write(release.TensorBoardRelease(tmp_path), 1, 4)
    manager = release.TensorBoardRelease(tmp_path)
    manager.restart_after(2)
    asyncio.run(manager.release({"loss": 7.0, "cohort": "text"}, 3))
    manager.close()
    found = scalars(tmp_path, "loss")
    assert sorted(found) == [1, 2, 3]
    assert found[1] == 2.5
    assert found[3] == 7.0


@pytest.mark.parametrize("kind", [release.MetricsRelease, release.TensorBoardRelease])
def test_are_release_managers(kind):
    assert issubclass(kind, tff.program.ReleaseManager)


def test_flatten_metrics():
    Pair = collections.namedtuple("Pair", ["left", "right"])
    metrics = collections.OrderedDict(
        z=collections.OrderedDict(loss=np.float32(0.5), count=np.array(3, np.int64)),
        a=Pair(np.array([1.5, np.nan], np.float32), [True, b"text"]),
        none=(),
    )
    row = release.flatten_metrics(metrics)
    assert list(row) == ["z/loss", "z/count", "a/left/0", "a/left/1", "a/right/0", "a/right/1"]
    assert row["z/loss"] == 0.5
    assert row["z/count"] == 3
    assert isinstance(row["z/count"], int)
    assert math.isnan(row["a/left/1"])
    assert row["a/right/0"] == 1
    assert row["a/right/1"] == "text"
    with pytest.raises(TypeError, match="`a/b`"):
        release.flatten_metrics({"a": {"b": object()}})
