"""The outcome of strips: in the terminal, and as the page sends them to the server."""

import hashlib

import pytest
from werkzeug import test as werkzeug_test

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_app.events import event_log, live_log
from tff_keyboard_app.keyboard import terminal_keyboard
from tff_keyboard_app.keyboard.server import keyboard_server
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.strip_events import Cursor, KeyboardEvents, TypedStrips
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    run = export_fakes.save_run(folder / "run", 1)
    return export(run, folder / "phone.tflite", ExportOptions()).paths.model


@pytest.fixture(scope="module")
def keyboard(path):
    return AppKeyboard(KeyboardPredictor(path))


@pytest.fixture
def log_path(tmp_path):
    return tmp_path / "me.jsonl"


@pytest.fixture
def events(keyboard, log_path):
    with live_log.opened(log_path) as log:
        yield KeyboardEvents(keyboard, log)


def typed(keyboard, events, keys):
    keys = iter([*keys, ""])
    terminal_keyboard.run(keyboard, lambda: next(keys), lambda _: None, None, TypedStrips(events))


@pytest.mark.parametrize(
    "text, place, prefix",
    [
        ("", 0, 0),
        ("s", 0, 1),
        ("see ", 1, 0),
        ("see yo", 1, 2),
        ("Ok. See", 1, 3),
        ("see " * 400 + "yo", 400, 2),
    ],
)
def test_position_of_a_strip(events, text, place, prefix):
    assert events.cursor(text) == Cursor(place, prefix)


def test_the_terminal_logs_every_strip_it_showed(keyboard, events, log_path, path):
    typed(keyboard, events, "see y\x7fyo\t\n")
    model = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    texts = ["", "s", "se", "see", "see ", "see y", "see ", "see y", "see yo"]
    strips = [keyboard.keyboard_strip(text).slots for text in texts]
    accepted = strips[-1][1].word
    strips.append(
        keyboard.keyboard_strip(f"see yo{accepted} ").slots
    )  # how many, whatever is there
    actual = list(event_log.read_log(log_path))
    assert [(s.place, s.prefix) for s in actual] == [
        (0, 0),
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (1, 1),
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 0),
    ]
    assert [s.shown for s in actual] == [sum(map(bool, slots)) for slots in strips]
    assert [s.outcome for s in actual] == ["typed"] * 8 + ["accepted", "left"]
    assert [s.rank for s in actual] == [None] * 8 + [0, None]
    words = ["see"] * 4 + [accepted.lower()] * 5 + [None]
    for strip, slots, word in zip(actual, strips, words, strict=True):
        ranked = [slot.word.lower() if slot else None for slot in (slots[1], slots[0], slots[2])]
        assert strip.match == (ranked.index(word) if word in ranked and word else None)
    assert {strip.model for strip in actual} == {model}
    assert not any(strip.deleted for strip in actual)


def test_a_suggestion_taken_back_is_marked(keyboard, events, log_path):
    typed(keyboard, events, ["s", "\t", "\x7f", "\x7f", "\x1b", "1", "h", "\x7f", "\n"])
    actual = list(event_log.read_log(log_path))
    assert [(s.outcome, s.deleted) for s in actual] == [
        ("typed", False),
        ("accepted", True),
        ("typed", False),  # the key that took it back
        ("typed", False),
        ("accepted", False),
        ("typed", False),
        ("typed", False),  # it deleted a letter
        ("left", False),
    ]
    assert actual[4].rank == 1


def test_a_command_is_no_message(keyboard, events, log_path):
    class Forgetful:
        can_learn = True

        def forget(self, words):
            assert words == " see"
            return ["see"], []

        def learn(self, text, exempt_words=(), *, learn=True):
            assert text == "you"

    keys = iter([*"/forget see\n", *"you\n", ""])
    terminal_keyboard.run(
        keyboard, lambda: next(keys), lambda _: None, Forgetful(), TypedStrips(events)
    )
    actual = list(event_log.read_log(log_path))
    assert [(s.message, s.place, s.prefix) for s in actual] == [(0, 0, n) for n in range(4)]


def test_unwritable_log_does_not_stop_typing(keyboard, events, monkeypatch):
    def full(*_, **__):
        raise ProgramError("the log cannot be written: disk full")

    monkeypatch.setattr(live_log.files, "append", full)
    screen = []
    keys = iter([*"see you\n", *"again\n", ""])
    session = terminal_keyboard.run(
        keyboard, lambda: next(keys), screen.append, None, TypedStrips(events)
    )
    assert session.messages == ["see you", "again"]
    assert sum("disk full" in line for line in screen) == 2


STRIP = {
    **{"place": 0, "prefix": 1, "words": ["He", "See", None], "latency_us": 300},
    **{"outcome": "accepted", "slot": 1, "deleted": False},
}


class TestServer:
    @pytest.fixture
    def client(self, keyboard, events):
        application = keyboard_server.KeyboardApplication({"phone": keyboard}, events=[events])
        return werkzeug_test.Client(application)

    def test_strips_say_where_they_stand(self, client):
        answer = client.post("/api/suggest", json={"text": "see yo"}).get_json()
        assert answer["models"][0]["cursor"] == {"place": 1, "prefix": 2}
        assert client.get("/api/models").get_json()["logs_events"] is True

    def test_logs_what_the_page_kept(self, client, log_path):
        body = {"message": "See you", "model": 0, "strips": [STRIP]}
        assert client.post("/api/events", json=body).get_json() == {"logged": 1}
        (strip,) = event_log.read_log(log_path)
        assert (strip.shown, strip.match, strip.rank, strip.latency_us) == (2, 0, 0, 300)

    @pytest.mark.parametrize(
        "change",
        [
            {"strips": None},
            {"strips": [1]},
            {"strips": [{}]},
            {"strips": [STRIP | {"more": 1}]},
            {"strips": [STRIP | {"slot": 2}]},
            {"strips": [STRIP | {"slot": 3}]},
            {"strips": [STRIP | {"slot": None}]},
            {"strips": [STRIP | {"words": ["a"]}]},
            {"strips": [STRIP | {"words": [1, 2, 3]}]},
            {"strips": [STRIP | {"words": {"a": "", "b": "", "c": ""}}]},
            {"strips": [STRIP | {"outcome": "bought"}]},
            {"strips": [STRIP | {"place": "0"}]},
            {"strips": [STRIP | {"place": -1}]},
            {"model": 1},
            {"model": "phone"},
            {"message": None},
        ],
    )
    def test_refuses_what_the_page_never_sends(self, client, log_path, change):
        body = {"message": "See you", "model": 0, "strips": [STRIP], **change}
        answer = client.post("/api/events", json=body)
        assert answer.status_code == 400
        assert "error" in answer.get_json()
        assert log_path.read_bytes() == b""

    def test_without_a_log_there_is_none(self, keyboard):
        client = werkzeug_test.Client(keyboard_server.KeyboardApplication({"phone": keyboard}))
        assert client.get("/api/models").get_json()["logs_events"] is False
        assert (
            "cursor" not in client.post("/api/suggest", json={"text": ""}).get_json()["models"][0]
        )
        body = {"message": "", "model": 0, "strips": []}
        assert client.post("/api/events", json=body).status_code == 409
