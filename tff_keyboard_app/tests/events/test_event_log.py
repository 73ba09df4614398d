"""The log: sums over messages, batches, round trip, bad files, kills, and one writer at a time."""

import datetime
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import damaged, damaged_json, is_one_line
from tff_keyboard.storage.errors import DataError, ProgramError, UsageError
from tff_keyboard_app.events import event_counts, event_log
from tff_keyboard_app.events.event_counts import COUNTS, StripOutcome
from tff_keyboard_app.events.event_log import MIN_MESSAGES

MODEL, OTHER = "0a1b2c3d4e5f", "f5e4d3c2b1a0"
MESSAGE = ["see", "you"]
STRIPS = [
    StripOutcome(place=0, prefix=0, words=("i", "see", "we"), latency_us=900),
    StripOutcome(place=1, prefix=1, words=("you", "your"), rank=0, latency_us=200_000),
]
GOOD = {
    "v": 2,
    "models": {
        MODEL: {
            "first_day": "2026-11-21",
            "last_day": "2026-11-28",
            "messages": 10,
            "counts": dict.fromkeys(COUNTS, 4),
        }
    },
}
words = st.sampled_from(["i", "see", "you", "yonder", "them"])


@st.composite
def strips(draw):
    shown = tuple(draw(st.lists(words, max_size=3, unique=True)))
    rank = draw(st.none() | st.integers(0, len(shown) - 1)) if shown else None
    return StripOutcome(
        place=draw(st.integers(0, 4)),
        prefix=draw(st.integers(0, 2)),
        words=shown,
        rank=rank,
        deleted=rank is not None and draw(st.booleans()),
        latency_us=draw(st.sampled_from([0, 999, 1000, 1001, 50_000]) | st.integers(0, 200_000)),
    )


messages = st.tuples(st.lists(strips(), max_size=4), st.lists(words, max_size=4))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "me.json"


def write(path, times=1, *, model=MODEL):
    """Adds the counts of some batches of equal messages."""
    with event_log.opened(path) as log:
        for _ in range(MIN_MESSAGES * times):
            log.add(model, STRIPS, MESSAGE)


def numpy_counts(strips, message):
    """Returns the counts of a message in the order of `COUNTS`, computed column by column."""
    strips = [strip for strip in strips if strip.words]
    shown = np.array([len(s.words) for s in strips], int)
    ranks = np.array([-1 if s.rank is None else s.rank for s in strips], int)
    deleted = np.array([s.deleted for s in strips], bool)
    next_word = np.array([s.prefix == 0 for s in strips], bool)
    first = np.array([s.place == 0 for s in strips], bool)
    typed = [*message, *[None] * 9]
    matches = np.array([typed[s.place] in s.words for s in strips], bool)
    edges = [-1, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, np.inf]  # a bucket has its end
    latencies = np.array([s.latency_us for s in strips])
    return np.array(
        [
            *(len(strips), shown.sum(), (ranks >= 0).sum(), deleted.sum()),
            *(next_word.sum(), (next_word & matches).sum()),
            *((next_word & first).sum(), (next_word & first & matches).sum()),
            *((ranks == place).sum() for place in range(3)),
            *(
                ((low < latencies) & (latencies <= high)).sum()
                for low, high in itertools.pairwise(edges)
            ),
        ]
    )


@given(st.lists(messages, max_size=9), st.integers(1, 6))
def test_a_session_is_the_sum_of_its_batches(tmp_path_factory, some, times):
    path = tmp_path_factory.mktemp("log") / "me.json"
    nothing = np.zeros(len(COUNTS), int)
    written, waiting, num_waiting = nothing, nothing, 0
    with event_log.opened(path) as log:
        for shown, message in some * times:
            log.add(MODEL, shown, message)
            waiting = waiting + numpy_counts(shown, message)
            num_waiting += bool(message) and any(strip.words for strip in shown)
            if num_waiting == MIN_MESSAGES:
                written, waiting, num_waiting = written + waiting, nothing, 0
            assert log.num_unwritten == num_waiting
            assert path.exists() == bool(written.any())
            if path.exists():
                np.testing.assert_array_equal(event_log.read(path).vector(), written)


def test_counts_go_on_in_the_same_file(path):
    write(path)
    write(path, 2)
    write(path, model=OTHER)
    log = event_log.read(path)
    expected = event_counts.count(STRIPS, MESSAGE) * MIN_MESSAGES
    np.testing.assert_array_equal(log.models[MODEL].vector(), 3 * expected)
    np.testing.assert_array_equal(log.models[OTHER].vector(), expected)
    np.testing.assert_array_equal(log.vector(), 4 * expected)
    assert log.models[MODEL].messages == 3 * MIN_MESSAGES
    today = datetime.datetime.now(datetime.timezone.utc).date()
    assert log.models[MODEL].last_day in (str(today), str(today - datetime.timedelta(1)))
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_file_has_sums_only(path):
    write(path)
    content = json.loads(path.read_text())
    assert content.keys() == {"v", "models"}
    assert content["models"][MODEL].keys() == {"first_day", "last_day", "messages", "counts"}
    assert content["models"][MODEL]["counts"].keys() == set(COUNTS)


def test_each_model_waits_for_its_own_batch(path):
    with event_log.opened(path) as log:
        for _ in range(MIN_MESSAGES - 1):
            log.add(MODEL, STRIPS, MESSAGE)
            log.add(OTHER, STRIPS, MESSAGE)
        log.add(MODEL, STRIPS, [])  # a message without a word hides nobody's words
        log.add(MODEL, [], MESSAGE)
        assert not path.exists()
        assert log.num_unwritten == 2 * (MIN_MESSAGES - 1)
        log.add(OTHER, STRIPS, MESSAGE)
    assert event_log.read(path).models.keys() == {OTHER}


def test_days_of_a_clock_that_was_set_back(path):
    future = {**GOOD["models"][MODEL], "first_day": "2999-01-01", "last_day": "2999-01-02"}
    path.write_text(json.dumps({"v": 2, "models": {MODEL: future}}))
    write(path)
    entry = event_log.read(path).models[MODEL]
    assert entry.first_day < entry.last_day == "2999-01-02"


@pytest.mark.parametrize(
    "change, says",
    [
        ({"messages": 9}, "messages"),
        ({"messages": 10.0}, "messages"),
        ({"messages": True}, "messages"),
        ({"first_day": "2026-11-29"}, "first_day"),
        ({"last_day": "2026-11-28T19"}, "last_day"),
        ({"last_day": "20261128"}, "last_day"),
        ({"word": "secret"}, "unknown key"),
        ({"counts": {"strips": 1}}, "counts"),
        ({"counts": {**dict.fromkeys(COUNTS, 4), "secret": 1}}, "counts"),
        ({"counts": dict.fromkeys(COUNTS, -1)}, "strips"),
        ({"counts": dict.fromkeys(COUNTS, 10**12 + 1)}, "strips"),
        ({"counts": dict.fromkeys(COUNTS, 10**200)}, "64 bits"),
        ({"counts": dict.fromkeys(COUNTS, 1.5)}, "whole number"),
        ({"counts": {**dict.fromkeys(COUNTS, 4), "accepted": 5}}, "accepted"),
        ({"counts": []}, "counts"),
    ],
)
def test_a_broken_rule_is_named_and_the_content_is_not_quoted(path, change, says):
    path.write_text(json.dumps({"v": 2, "models": {MODEL: {**GOOD["models"][MODEL], **change}}}))
    with pytest.raises(DataError) as caught:
        event_log.read(path)
    assert str(path) in str(caught.value)
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "content, says",
    [
        ({**GOOD, "v": 3}, "`v`"),
        ({**GOOD, "v": "2"}, "log.v"),
        ({"v": 2, "models": {}}, "models"),
        ({"v": 2, "models": {"my phone": GOOD["models"][MODEL]}}, "models"),
        ({"v": 2}, "missing"),
        ([GOOD], "an object"),
    ],
)
def test_other_json_is_refused(path, content, says):
    path.write_text(json.dumps(content))
    with pytest.raises(DataError, match="not an event log") as caught:
        event_log.read(path)
    assert says in str(caught.value)


def test_a_log_of_version_1_must_be_deleted(path):
    line = '{"v": 1, "model": "0a1b2c3d4e5f", "hour": "2026-11-21T19", "message": 3, "place": 0}\n'
    for content in (line, 100_000 * line):
        path.write_text(content)
        with pytest.raises(DataError, match="Delete it") as caught:
            event_log.read(path)
        assert str(path) in str(caught.value)
        with pytest.raises(DataError, match="older version"), event_log.opened(path):
            pass
        assert path.read_text() == content


def test_other_files_are_refused_and_unchanged(path, tmp_path):
    with pytest.raises(DataError, match="Cannot read"):
        event_log.read(path)
    for content in ("", "my notes\n", "x" * 2**21):
        path.write_text(content)
        with pytest.raises(DataError, match="not an event log"), event_log.opened(path):
            pass
        assert path.read_text() == content
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", ".", "nowhere/me.json"):
        refused = pytest.raises(UsageError, match="cannot write an event log")
        with refused, event_log.opened(tmp_path / name):
            pass


@given(st.one_of(damaged(json.dumps(GOOD).encode()), damaged_json(GOOD)))
def test_damage_is_one_line(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("log") / "me.json"
    path.write_bytes(content)
    assert is_one_line(lambda: event_log.read(path))


def test_a_log_that_cannot_be_written_is_unchanged_and_tried_again(path, monkeypatch):
    write(path)
    before = path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with event_log.opened(path) as log:
        for _ in range(MIN_MESSAGES - 1):
            log.add(MODEL, STRIPS, MESSAGE)
        with monkeypatch.context() as patch:
            patch.setattr("os.fsync", full)
            with pytest.raises(ProgramError, match="No space"):
                log.add(MODEL, STRIPS, MESSAGE)
            assert path.read_bytes() == before
        log.add(MODEL, STRIPS, MESSAGE)
    assert event_log.read(path).models[MODEL].messages == 2 * MIN_MESSAGES + 1


def test_a_log_with_made_up_counts_can_be_full(path):
    entry = {**GOOD["models"][MODEL], "counts": dict.fromkeys(COUNTS, 10**12)}
    path.write_text(json.dumps({"v": 2, "models": {MODEL: entry}}))
    with pytest.raises(ProgramError, match="is full"):
        write(path)


def test_one_writer_at_a_time(path):
    for _ in range(2):  # also after the first batch has replaced the file
        with event_log.opened(path) as log:
            for _ in range(MIN_MESSAGES):
                log.add(MODEL, STRIPS, MESSAGE)
            refused = pytest.raises(UsageError, match="another keyboard is using this log")
            with refused, event_log.opened(path):
                pass


WRITER = f"""
import pathlib, sys
from tff_keyboard_app.events import event_log
from tff_keyboard_app.tests.events.test_event_log import MESSAGE, MODEL, STRIPS
with event_log.opened(pathlib.Path(sys.argv[1])) as log:
    for number in range(10**9):
        log.add(MODEL, STRIPS, MESSAGE)
        if number == {5 * MIN_MESSAGES}:
            print("ready", flush=True)
"""


@pytest.mark.slow
def test_a_kill_leaves_whole_batches(path):
    batch = event_counts.count(STRIPS, MESSAGE) * MIN_MESSAGES
    batches = 0
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE
        ) as writer:
            assert writer.stdout.readline() == b"ready\n"
            writer.kill()
        entry = event_log.read(path).models[MODEL]
        assert entry.messages % MIN_MESSAGES == 0
        assert entry.messages // MIN_MESSAGES >= batches + 5
        batches = entry.messages // MIN_MESSAGES
        np.testing.assert_array_equal(entry.vector(), batches * batch)
