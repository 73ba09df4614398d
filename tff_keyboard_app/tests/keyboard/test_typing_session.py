"""Slots, the effect of a tap, and the counters, in the terminal and on the web server."""

import json
import pathlib
import threading
import types

import hypothesis
import pytest
from hypothesis import strategies as st
from werkzeug import test as werkzeug_test

from tests.support.examples import examples
from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_app.keyboard import terminal_keyboard, typing_session
from tff_keyboard_app.keyboard.server import keyboard_server
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typing_session import KeyboardStrip, Sent, Slot, TypingSession
from tflite_export.export.export_options import ExportOptions
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

BACKSPACE_CASES = json.loads(
    (pathlib.Path(__file__).parents[1] / "support" / "backspace_cases.json").read_text("utf-8")
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("typing")
    run = export_fakes.save_run(folder / "run")
    return export(run, folder / "k.tflite", ExportOptions()).paths.model


@pytest.fixture(scope="module")
def predictor(path):
    return KeyboardPredictor(path)


@pytest.fixture(scope="module")
def keyboard(predictor):
    return AppKeyboard(predictor)


@pytest.fixture
def client(keyboard):
    return werkzeug_test.Client(keyboard_server.KeyboardApplication({"one": keyboard}))


def test_the_best_word_stands_in_the_centre(predictor, keyboard):
    ranked = [word for word, _ in predictor.suggest(["are"], "", 3)]
    slots = keyboard.keyboard_strip("are ").slots
    assert [slot.word for slot in slots] == [ranked[1], ranked[0], ranked[2]]


def test_places_without_a_suggestion_are_empty(keyboard):
    assert keyboard.keyboard_strip("zzz").slots == (None, None, None)
    assert keyboard.keyboard_strip("zz").slots == (None, None, None)
    left, middle, right = keyboard.keyboard_strip("stra").slots
    # Nothing else begins alike; what is typed may be taken as it is.
    assert (left.word, middle.word, right) == ("stra", "straße", None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see you lat", "see you later "),
        ("see you, (lat", "see you, (later "),
        ("See you Lat", "See you Later "),
        ("LAT", "LATER "),
        ("don’", "don't "),
        ("ｌａｔ", "later "),  # full-width letters, which are normalised
        ("E\u0301", "É "),  # two characters that are normalised to one
    ],
)
def test_a_tap_replaces_the_fragment_in_its_case(keyboard, text, expected):
    slot = next(
        slot
        for slot in keyboard.keyboard_strip(text).slots
        if slot and slot.applied_to(text).casefold() == expected.casefold()
    )
    assert slot.applied_to(text) == expected


@hypothesis.given(st.text(max_size=30))
@examples(150)
def test_a_tap_leaves_the_words_before_alone(predictor, keyboard, text):
    context, _ = predictor.context_and_prefix(text)
    for slot in keyboard.keyboard_strip(text).slots:
        if slot is not None:
            words, prefix = predictor.context_and_prefix(slot.applied_to(text))
            assert words[: len(context)] == context
            assert prefix == ""
            assert 0 <= slot.replaces <= len(text)


def test_counters_count_keys_taps_and_deletions(keyboard):
    session = TypingSession()
    for character in "see you l":
        session.press(character)
    slot = keyboard.keyboard_strip(session.text).slots[1]
    session.accept(slot)
    assert session.text == f"see you {slot.word} "
    assert session.keystrokes == 10
    assert session.saved == len(session.text) - 10
    session.backspace()  # takes the suggestion back
    assert (session.text, session.keystrokes) == ("see you l", 11)
    session.backspace()
    assert (session.text, session.keystrokes) == ("see you ", 12)
    session.press("l")
    session.accept(slot)
    session.send()
    message = f"see you {slot.word}"
    assert session.messages == [message]
    # Enter is a key, and the space behind the message is no character.
    assert (session.text, session.characters, session.keystrokes) == ("", len(message), 15)
    assert session.kss_with_spaces == pytest.approx(1 - 15 / len(message))
    session.send()
    assert len(session.messages) == 1  # nothing to send


@pytest.mark.parametrize(
    ("after", "taken"),
    [
        ("", 0),
        (" ok", 1),
        ("ning ok", 5),
        ("ning.", 4),
        ("'s, ok", 2),
        (". Ok", 0),
        ("-", 0),
        ("ning\nok", 4),
        ("x" * 100, 40),
    ],
)
def test_a_tap_inside_a_word_replaces_all_of_it(keyboard, after, taken):
    slot = keyboard.keyboard_strip("see you la", after).slots[1]
    assert slot.replaces == 2
    assert slot.replaces_after == taken


def test_between_words_only_a_space_behind_the_cursor_goes(keyboard):
    assert keyboard.keyboard_strip("see ", "you").slots[1].replaces_after == 0
    assert keyboard.keyboard_strip("see ", " you").slots[1].replaces_after == 1


@pytest.mark.parametrize("case", BACKSPACE_CASES, ids=lambda case: case["name"])
def test_backspace_follows_the_table_of_the_page(keyboard, case):
    session = TypingSession()
    for step in case["steps"]:
        for key in [step] if step.startswith("{") else step:
            strip = session.with_typed(keyboard.keyboard_strip(session.text))
            if key == "{tap 3}":
                session.accept(strip.slots[2], strip.correction)
            elif key == "{shift space}":
                session.press(" ", strip.correction, corrects=False)
            elif key == "\b":
                session.backspace()
            else:
                session.press(key, strip.correction)
    assert session.text == case["text"]


def test_a_correction_that_was_taken_back_later_is_exempt():
    session = session_of("i dont")
    session.press(" ", DONT)
    for key in "so":
        session.press(key)
    for _ in "so ":
        session.backspace()
    strip = session.with_typed(KeyboardStrip((None, None, None), 0.0))
    assert strip.slots[2].word == "dont"
    session.accept(strip.slots[2])
    session.press("x")
    session.send()
    assert session.settled(ended=True)[0].exempt_words == {"dont"}


def test_of_two_words_only_the_changed_one_is_exempt():
    session = session_of("so were going")
    session.press(" ", Slot("we're going", 1.0, 10, "we're going "))
    session.backspace()
    assert session.text == "so were going "
    session.send()
    assert session.settled()[0].exempt_words == {"were"}


DONT = Slot("don't", 1.0, 4, "don't ")


def session_of(text):
    session = TypingSession()
    for character in text:
        session.press(character)
    return session


def test_enter_corrects_as_a_space_does_and_backspace_brings_the_message_back():
    session = session_of("i dont")
    session.send(DONT)
    assert (session.text, session.messages) == ("", ["i don't"])
    assert session.settled() == []  # Backspace might take it back
    characters = session.characters
    session.backspace()
    assert (session.text, session.messages) == ("i dont", [])
    assert session.characters == characters - 1  # the apostrophe
    session.send(DONT)  # not a second time
    assert session.messages == ["i dont"]
    assert session.settled() == [Sent("i dont", frozenset({"dont"}), learn=True)]
    assert session.settled() == []


@pytest.mark.parametrize("mark", [*".,!?;:)", "😀", "❤"])
def test_punctuation_or_an_emoji_corrects_as_a_space_does(mark):
    session = session_of("i dont")
    session.press(mark, DONT)
    assert (session.text, session.keystrokes) == (f"i don't{mark}", 7)
    session.backspace()
    assert session.text == f"i dont{mark}"
    session.backspace()
    session.press(" ", DONT)  # not a second time
    assert session.text == "i dont "
    session.send()
    assert session.settled() == [Sent("i dont", frozenset({"dont"}), learn=True)]


def test_other_marks_correct_nothing():
    for mark in "'(@#_/":
        session = session_of("dont")
        session.press(mark, DONT)
        assert session.text == f"dont{mark}"


def test_a_full_stop_corrects_a_single_letter_unless_it_begins_an_abbreviation():
    for mark in ".,":
        session = session_of("so i")
        session.press(mark, Slot("I", 1.0, 1, "I "))
        assert session.text == f"so I{mark}"
    session = session_of("i")
    session.press(".", Slot("I", 1.0, 1, "I "))
    session.press("e")
    session.press(".")
    assert session.text == "i.e."
    session.send()
    assert session.settled(ended=True)[0].exempt_words == frozenset()


def test_word_of_an_address_is_not_corrected():
    session = session_of("ask jhon")
    session.press(".", Slot("John", 1.0, 4, "John "))
    assert session.text == "ask John."
    session.press("s")
    assert (session.text, session.keystrokes) == ("ask jhon.s", 10)
    session.send()
    assert session.settled(ended=True)[0].exempt_words == frozenset()
    for mark, character, text in ((".", " ", "i don't. "), (",", "o", "i don't,o")):
        session = session_of("i dont")
        session.press(mark, DONT)
        session.press(character)
        assert session.text == text


@pytest.mark.parametrize("mark", " .,!?;:)")
def test_punctuation_takes_the_place_of_the_space_of_a_suggestion(mark):
    session = session_of("see y")
    session.accept(Slot("you", 0.5, 1, "you "))
    session.press(mark)
    assert (session.text, session.keystrokes) == (f"see you{mark}", 7)
    session.press(" ")
    assert session.text == f"see you{mark} "  # only the space of the suggestion is replaced
    session = session_of("see y")
    session.accept(Slot("you", 0.5, 1, "you "))
    session.press("-")
    assert session.text == "see you -"


def test_a_message_is_settled_by_the_next_key_or_the_end():
    session = session_of("i dont")
    session.send(DONT)
    session.press("o")
    assert session.settled() == [Sent("i don't", frozenset(), learn=True)]
    session.press("k")
    session.send()
    assert [sent.text for sent in session.settled()] == ["ok"]
    session = session_of("i dont")
    session.send(DONT)
    assert [sent.text for sent in session.settled(ended=True)] == ["i don't"]


def test_words_that_were_typed_against_a_correction_are_kept():
    session = session_of("i dont")
    session.press(" ", DONT)
    assert session.text == "i don't "
    session.backspace()
    assert session.text == "i dont "
    session.send()
    [sent] = session.settled()
    assert sent.exempt_words == {"dont"}
    # Or taken from the strip as it is typed.
    session = session_of("dont")
    session.accept(Slot("dont", 0.0, 4, "dont "), DONT)
    session.send()
    assert session.settled()[0].exempt_words == {"dont"}
    session = session_of("ok")
    session.send()
    assert session.settled()[0].exempt_words == frozenset()


def test_a_correction_that_was_taken_back_is_not_made_again_in_the_message():
    """AnySoftKeyboard #2523, Unexpected-Keyboard #1232."""
    session = session_of("i dont")
    session.press(" ", DONT)
    session.backspace()
    for character in "or i dont":
        session.press(character)
    session.press(" ", DONT)
    assert session.text == "i dont or i dont "


def test_private_messages_are_marked():
    session = session_of("ok")
    session.learn = False
    session.send()
    session.learn = True
    for character in "yes":
        session.press(character)
    session.send()
    assert [sent.learn for sent in session.settled()] == [False, True]


# --- terminal


def typed(keyboard, keys):
    keys = iter(keys)
    shown = []
    session = terminal_keyboard.run(keyboard, lambda: next(keys, ""), shown.append)
    return session, "".join(shown)


def test_terminal_types_accepts_and_sends(predictor, keyboard):
    best = predictor.suggest(["see", "you"], "l", 3)
    session, shown = typed(keyboard, "see you l\t\nare\x7f\x04ignored")
    assert session.messages == [f"see you {best[0][0]}", "ar"]
    assert session.keystrokes == len("see you l") + 1 + 1 + len("are") + 1 + 1  # Enter twice
    assert best[1][0] in shown
    assert f"{session.saved} saved" in shown


def test_terminal_shows_no_code_of_a_strangers_vocabulary():
    strip = KeyboardStrip((None, Slot("a\x1b[2J", 1.0, 0, "a\x1b[2J "), None), 0.0)
    shown = typed(types.SimpleNamespace(keyboard_strip=lambda text: strip), "\t")[1]
    assert "> a[2J " in shown
    assert "\x1b[2J" not in shown


@pytest.mark.parametrize("key", ["[A", "OA", "[3~", "[1;5C"])
def test_an_arrow_key_types_nothing(keyboard, key):
    session, _ = typed(keyboard, f"see\x1b{key} you")
    assert session.messages == ["see you"]


@pytest.mark.parametrize("place", [1, 2, 3])
def test_terminal_takes_each_place(keyboard, place):
    slot = keyboard.keyboard_strip("see ").slots[place - 1]
    session, _ = typed(keyboard, f"see \x1b{place}")
    assert session.messages == [f"see {slot.word}"]


@hypothesis.given(st.text(max_size=40))
@examples(100)
def test_terminal_survives_any_keys(keyboard, keys):
    typed(keyboard, keys)


# --- server


def suggest(client, text, **changes):
    arguments = {"json": {"text": text}} | changes
    return client.post("/api/suggest", **arguments)


def test_server_suggests_what_the_model_does(client, keyboard):
    answer = suggest(client, "see you l")
    slots = keyboard.keyboard_strip("see you l").slots
    [strip] = answer.json["models"]
    assert [slot["inserts"] for slot in strip["slots"]] == [slot.inserts for slot in slots]
    assert strip["slots"][1]["probability"] == pytest.approx(slots[1].probability)
    assert strip["latency_ms"] > 0
    assert suggest(client, "zzz").json["models"][0]["slots"] == [None, None, None]


def test_server_names_its_models(client, predictor):
    [facts] = client.get("/api/models").json["models"]
    assert facts == {
        "name": "one",
        "quantization": "int8-rows",
        "bytes": predictor.manifest.model.bytes,
        "ngram_bytes": 0,
        "words": len(export_fakes.WORDS),
    }


@pytest.mark.parametrize(
    "page", ["/", *(f"/{path.name}" for path in keyboard_server.PAGE.glob("*.[cj]s*"))]
)
def test_pages_load_nothing_from_elsewhere(client, page):
    answer = client.get(page)
    assert answer.status_code == 200
    assert "http:" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in answer.text
    assert "//" not in answer.text or page.endswith(".js")  # comments


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        ({"json": {"text": 5}}, 400),
        ({"json": ["text"]}, 400),
        ({"json": {}}, 400),
        ({"json": {"text": "a", "after": 5}}, 400),
        ({"data": b"{", "content_type": "application/json"}, 400),
        ({"data": b"\xff\xfe", "content_type": "application/json"}, 400),
        ({"data": b"[" * 100_000, "content_type": "application/json"}, 400),
        ({"data": b'{"text": "a"}', "content_type": "text/plain"}, 415),
        ({"data": {"text": "a"}}, 415),  # what a form of another page can send
    ],
)
def test_server_refuses_what_is_no_request_of_its_page(client, arguments, status):
    answer = client.post("/api/suggest", **arguments)
    assert answer.status_code == status
    assert answer.json["error"]


def test_server_refuses_other_methods_paths_and_sizes(client, monkeypatch):
    assert client.get("/api/suggest").status_code == 405
    assert client.post("/").status_code == 405
    assert client.get("/../typing_session.py").status_code == 404
    assert client.get("/keyboard_page/index.html").status_code == 404
    monkeypatch.setattr(keyboard_server, "LONGEST_REQUEST", 100)
    assert suggest(client, "a" * 200).status_code == 413


@pytest.mark.parametrize("field", ["text", "after", "sent"])
def test_server_reads_no_endless_text(client, field):
    most = keyboard_server.LONGEST_TEXT
    assert suggest(client, "", json={"text": "", field: "a" * most}).status_code == 200
    answer = suggest(client, "", json={"text": "", field: "a" * (most + 1)})
    assert answer.status_code == 413
    assert "20,001" in answer.json["error"]


@hypothesis.given(st.text(max_size=50))
@examples(50)
def test_server_survives_any_text(keyboard, text):
    client = werkzeug_test.Client(keyboard_server.KeyboardApplication({"one": keyboard}))
    data = json.dumps({"text": text})
    answer = client.post("/api/suggest", data=data, content_type="application/json")
    assert answer.status_code == 200


def test_keys_at_the_same_time_do_not_mix(client, keyboard):
    texts = [f"{sentence} " for sentence in export_fakes.SENTENCES] * 4
    expected = [keyboard.keyboard_strip(text).slots[1].word for text in texts]
    answers: dict[int, str] = {}

    def ask(index):
        slots = suggest(client, texts[index]).json["models"][0]["slots"]
        answers[index] = slots[1]["word"]

    threads = [threading.Thread(target=ask, args=[index]) for index in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[index] for index in range(len(texts))] == expected


def test_a_port_in_use_is_one_clear_line(keyboard, capsys):
    server = keyboard_server.make_server({"one": keyboard}, 0)
    says = rf"--port={server.server_port} on 127.0.0.1 cannot be used \(.*in use.*\)"
    try:
        assert server.server_address[0] == "127.0.0.1"
        with pytest.raises(ProgramError, match=says):
            keyboard_server.make_server({"one": keyboard}, server.server_port)
    finally:
        server.server_close()
    assert capsys.readouterr().err == ""  # the error is the only line


def test_the_first_slot_is_in_the_middle():
    assert typing_session.SLOT_RANKS.index(0) == 1


@pytest.mark.parametrize(
    "emoji",
    ["\U0001f602", "\u2764\ufe0f", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea",
     "\U0001f469\u200d\U0001f469\u200d\U0001f467", "3\ufe0f\u20e3"],
)  # fmt: skip
def test_backspace_takes_a_whole_emoji(emoji):
    session = TypingSession()
    for character in f"so\U0001f1eb\U0001f1f7{emoji}":
        session.press(character)
    session.backspace()
    assert session.text == "so\U0001f1eb\U0001f1f7"
