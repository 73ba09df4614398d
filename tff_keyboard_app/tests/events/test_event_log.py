"""The log: round trip, rejected content, and a line cut by a kill."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tff_keyboard.storage.errors import DataError
from tff_keyboard_app.events import event_log
from tff_keyboard_app.events.event_log import StripRecord

GOOD = {
    **{"model": "0a1b2c3d4e5f", "hour": "2026-11-21T19", "message": 3, "place": 0, "prefix": 2},
    **{"shown": 3, "match": 1, "outcome": "accepted", "rank": 1, "deleted": False},
    "latency_us": 640,
}


@st.composite
def strips(draw):
    shown = draw(st.integers(0, 5))
    place = st.integers(0, shown - 1) if shown else st.none()
    accepted = shown > 0 and draw(st.booleans())
    return StripRecord(
        model=draw(st.from_regex(r"[0-9a-f]{12}", fullmatch=True)),
        hour="2026-11-21T19",
        message=draw(st.integers(0, 999)),
        place=draw(st.integers(0, 99)),
        prefix=draw(st.integers(0, 20)),
        shown=shown,
        match=draw(st.none() | place),
        outcome="accepted" if accepted else draw(st.sampled_from(["typed", "left"])),
        rank=draw(place) if accepted else None,
        deleted=accepted and draw(st.booleans()),
        latency_us=draw(st.integers(0, 10**6)),
    )


@given(st.lists(strips(), max_size=5))
def test_what_is_written_is_read(tmp_path_factory, logged):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    event_log.write_log(path, logged)
    assert list(event_log.read_log(path)) == logged
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "change, says",
    [
        ({"place": -1}, "place"),
        ({"place": True}, "place"),
        ({"shown": 99}, "shown"),
        ({"match": 3}, "match"),
        ({"rank": None}, "rank"),
        ({"outcome": "typed"}, "rank"),
        ({"outcome": "bought", "rank": None}, "outcome"),
        ({"outcome": "typed", "rank": None, "deleted": True}, "deleted"),
        ({"model": "my phone"}, "model"),
        ({"hour": "2026-11-21T19:04"}, "hour"),
        ({"latency_us": 1.5}, "latency_us"),
        ({"word": "secret"}, "fields"),
        ({"v": 2}, "`v`"),
    ],
)
def test_a_line_that_breaks_a_rule_is_named_and_not_quoted(tmp_path, change, says):
    path = tmp_path / "log.jsonl"
    good = {"v": 1, **GOOD}
    path.write_text("".join(json.dumps(line) + "\n" for line in (good, {**good, **change})))
    with pytest.raises(DataError, match="line 2") as caught:
        list(event_log.read_log(path))
    assert says in str(caught.value)
    assert "secret" not in str(caught.value)


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "log.jsonl"
    with pytest.raises(DataError, match="Cannot read"):
        list(event_log.read_log(path))
    for content in ("words\n", "[" * 900 + "\n", "x" * 5000):
        path.write_text(content)
        with pytest.raises(DataError, match="line 1"):
            list(event_log.read_log(path))


def test_a_line_cut_by_a_kill_is_left_out(tmp_path):
    path = tmp_path / "log.jsonl"
    event_log.write_log(path, [StripRecord(**GOOD)])
    with path.open("a") as file:
        file.write('{"v": 1, "mod')
    assert list(event_log.read_log(path)) == [StripRecord(**GOOD)]
