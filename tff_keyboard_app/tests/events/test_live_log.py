"""A log that is appended to: whole messages, one writer, a line cut by a kill."""

import pytest

from tff_keyboard.storage.errors import DataError, ProgramError, UsageError
from tff_keyboard_app.events import event_log, live_log
from tff_keyboard_app.events.live_log import UnsentStrip

MODEL = "0a1b2c3d4e5f"


def shown(**changes):
    fields = {"place": 1, "prefix": 2, "words": ("you", "them", "it"), "outcome": "typed"}
    return UnsentStrip(**{"model": MODEL, **fields, **changes})


def test_the_word_typed_in_the_end_is_looked_up_and_not_written(tmp_path):
    path = tmp_path / "me.jsonl"
    with live_log.opened(path) as log:
        strips = [
            shown(place=0, prefix=0, words=("i", "see", "we")),
            shown(latency_us=70),
            shown(outcome="accepted", rank=0, deleted=True),
            shown(words=("yonder",)),
            shown(place=2, outcome="left", words=()),
        ]
        assert log.add(strips, ["see", "them"]) == 5
    actual = list(event_log.read_log(path))
    assert [strip.match for strip in actual] == [1, 1, 1, None, None]
    assert [strip.shown for strip in actual] == [3, 3, 3, 1, 0]
    assert [strip.rank for strip in actual] == [None, None, 0, None, None]
    assert [strip.deleted for strip in actual] == [False, False, True, False, False]
    assert {strip.message for strip in actual} == {0}
    assert actual[1].latency_us == 70
    for word in ("see", "them", "yonder"):
        assert word not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_goes_on_where_it_stopped(tmp_path):
    path = tmp_path / "me.jsonl"
    for number in range(3):
        with live_log.opened(path) as log:
            log.add([shown()], ["see", "you"])
            log.add([], [])  # a message without a strip has no number
            log.add([shown(), shown()], ["see", "you"])
        messages = [strip.message for strip in event_log.read_log(path)]
        assert messages[-3:] == [2 * number, 2 * number + 1, 2 * number + 1]


@pytest.mark.parametrize("cut", [b"", b"{", b'{"v": 1, "model": "0a1b2c3d4e5f", "hou'])
def test_a_line_that_a_kill_cut_is_removed(tmp_path, cut):
    path = tmp_path / "me.jsonl"
    with live_log.opened(path) as log:
        log.add([shown()], ["see", "you"])
    whole = path.read_bytes()
    path.write_bytes(whole + cut)
    path.chmod(0o644)
    with live_log.opened(path) as log:
        assert path.read_bytes() == whole
        log.add([shown()], ["see", "you"])
    assert [strip.message for strip in event_log.read_log(path)] == [0, 1]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_strip_that_breaks_a_rule_leaves_the_log_as_it_was(tmp_path):
    path = tmp_path / "me.jsonl"
    with live_log.opened(path) as log:
        log.add([shown()], ["see", "you"])
        before = path.read_bytes()
        for broken in (shown(prefix=-1), shown(model="my phone"), shown(outcome="accepted")):
            with pytest.raises(ValueError, match=r"must be|there when"):
                log.add([shown(), broken], ["see", "you"])
        assert path.read_bytes() == before


def test_write_errors_are_reported(tmp_path, monkeypatch):
    path = tmp_path / "me.jsonl"
    with live_log.opened(path) as log:
        log.add([shown()], ["see", "you"])
        before = path.read_bytes()

        def full(_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("os.fsync", full)
        with pytest.raises(ProgramError, match="No space"):
            log.add([shown()], ["see", "you"])
        assert path.read_bytes() == before


def test_one_writer_at_a_time(tmp_path):
    path = tmp_path / "me.jsonl"
    with live_log.opened(path):
        refused = pytest.raises(UsageError, match="another keyboard is using this log")
        with refused, live_log.opened(path):
            pass
    with live_log.opened(path):
        pass


def test_paths_that_cannot_be_a_log(tmp_path):
    (tmp_path / "notes.txt").write_text("my notes\n")
    with pytest.raises(DataError, match="line 1"), live_log.opened(tmp_path / "notes.txt"):
        pass
    assert (tmp_path / "notes.txt").read_text() == "my notes\n"
    (tmp_path / "link").symlink_to(tmp_path / "notes.txt")
    for name in ("link", ".", "nowhere/me.jsonl"):
        with pytest.raises(UsageError, match="event log"), live_log.opened(tmp_path / name):
            pass
