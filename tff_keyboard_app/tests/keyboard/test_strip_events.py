"""The outcome of strips: in the terminal, and as the page sends them to the server."""

import hashlib

import pytest
from werkzeug import test as werkzeug_test

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_app.events import event_counts, event_log
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


class RecordedLog:
    """Keeps the arguments of `LiveLog.add`."""

    def __init__(self):
        self.messages = []

    def add(self, model, strips, message):
        self.messages.append((model, list(strips), message))


@pytest.fixture
def log():
    return RecordedLog()


@pytest.fixture
def events(keyboard, log):
    return KeyboardEvents(keyboard, log)


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


def test_the_terminal_records_every_strip_it_showed(keyboard, events, log, path):
    typed(keyboard, events, "see y\x7fyo\t\n")
    texts = ["", "s", "se", "see", "see ", "see y", "see ", "see y", "see yo"]
    slots = [keyboard.keyboard_strip(text).slots for text in texts]
    accepted = slots[-1][1].word
    slots.append(keyboard.keyboard_strip(f"see yo{accepted} ").slots)
    ((model, strips, message),) = log.messages
    assert model == hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    assert message == ["see", accepted.lower()]
    places = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 0), (1, 1), (1, 2), (2, 0)]
    assert [(s.place, s.prefix) for s in strips] == places
    assert [len(s.words) for s in strips[:-1]] == [sum(map(bool, each)) for each in slots[:-1]]
    assert [s.rank for s in strips] == [None] * 8 + [0, None]
    for strip, each in zip(strips[:-1], slots[:-1], strict=True):
        ranked = [slot.word.lower() for slot in (each[1], each[0], each[2]) if slot]
        assert list(strip.words) == ranked
    assert not any(strip.deleted for strip in strips)


def test_a_suggestion_taken_back_is_marked(keyboard, events, log):
    typed(keyboard, events, ["s", "\t", "\x7f", "\x7f", "\x1b", "1", "h", "\x7f", "\n"])
    ((_, strips, _),) = log.messages
    assert [(s.rank, s.deleted) for s in strips] == [
        (None, False),
        (0, True),
        (None, False),  # the key that took it back
        (None, False),
        (1, False),
        (None, False),
        (None, False),  # it deleted a letter
        (None, False),
    ]


def test_a_command_is_no_message(keyboard, events, log):
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
    ((_, strips, message),) = log.messages
    assert message == ["you"]
    assert [(s.place, s.prefix) for s in strips] == [(0, n) for n in range(4)]


def test_unwritable_log_does_not_stop_typing(keyboard, events, log, monkeypatch):
    def full(*_):
        raise ProgramError("the log cannot be written: disk full")

    monkeypatch.setattr(log, "add", full)
    screen = []
    keys = iter([*"see you\n", *"again\n", ""])
    session = terminal_keyboard.run(
        keyboard, lambda: next(keys), screen.append, None, TypedStrips(events)
    )
    assert session.messages == ["see you", "again"]
    assert sum("disk full" in line for line in screen) == 2


STRIP = {
    **{"place": 0, "prefix": 1, "words": ["He", "See", None], "latency_us": 300},
    **{"slot": 1, "deleted": False},
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

    def test_counts_the_strips_of_the_page(self, keyboard, tmp_path):
        body = {"message": "See you", "model": 0, "strips": [STRIP, STRIP | {"prefix": 0}]}
        with event_log.opened(tmp_path / "me.json") as log:
            application = keyboard_server.KeyboardApplication(
                {"phone": keyboard}, events=[KeyboardEvents(keyboard, log)]
            )
            for _ in range(event_log.MIN_MESSAGES):
                answer = werkzeug_test.Client(application).post("/api/events", json=body)
                assert answer.status_code == 200
        counts = dict(event_log.read(tmp_path / "me.json").models.popitem()[1].counts)
        expected = {
            **{"strips": 20, "suggestions": 40, "accepted": 20, "accepted_at_1": 20},
            **{"next_word_strips": 10, "next_word_matches": 10},
            **{"zero_state_strips": 10, "zero_state_matches": 10, "latency_to_1_ms": 20},
        }
        assert counts == dict.fromkeys(event_counts.COUNTS, 0) | expected

    @pytest.mark.parametrize(
        "change",
        [
            {"strips": None},
            {"strips": [1]},
            {"strips": [{}]},
            {"strips": [STRIP | {"more": 1}]},
            {"strips": [STRIP | {"slot": 2}]},
            {"strips": [STRIP | {"slot": 3}]},
            {"strips": [STRIP | {"slot": None, "deleted": True}]},
            {"strips": [STRIP | {"deleted": 1}]},
            {"strips": [STRIP | {"latency_us": 1e9}]},
            {"strips": [STRIP | {"prefix": 10**200}]},
            {"strips": [STRIP | {"words": ["a"]}]},
            {"strips": [STRIP | {"words": [1, 2, 3]}]},
            {"strips": [STRIP | {"words": {"a": "", "b": "", "c": ""}}]},
            {"strips": [STRIP | {"place": "0"}]},
            {"strips": [STRIP | {"place": -1}]},
            {"model": 1},
            {"model": "phone"},
            {"message": None},
        ],
    )
    def test_refuses_what_the_page_never_sends(self, client, log, change):
        body = {"message": "See you", "model": 0, "strips": [STRIP], **change}
        answer = client.post("/api/events", json=body)
        assert answer.status_code == 400
        assert "error" in answer.get_json()
        assert log.messages == []

    def test_without_a_log_there_is_none(self, keyboard):
        client = werkzeug_test.Client(keyboard_server.KeyboardApplication({"phone": keyboard}))
        assert client.get("/api/models").get_json()["logs_events"] is False
        assert (
            "cursor" not in client.post("/api/suggest", json={"text": ""}).get_json()["models"][0]
        )
        body = {"message": "", "model": 0, "strips": []}
        assert client.post("/api/events", json=body).status_code == 409
