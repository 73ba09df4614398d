"""Nothing that was typed stays in a cache after it was forgotten."""

import functools
import gc

import pytest
from werkzeug import test as werkzeug_test

from tff_keyboard_app.keyboard.server import keyboard_server
from tff_keyboard_app.keyboard.strip import AppKeyboard
from tff_keyboard_app.keyboard.typed_cache import forget_typed, typed_cache
from tff_keyboard_app.keyboard.user_history import UserHistory

WORDS = ("brewdimple", "zylquorvan")


@pytest.fixture
def keyboard(hybrid):
    return AppKeyboard(hybrid)


def caches_of_typed_text():
    """Returns every cache in this process of a method of the keyboard, registered or not."""
    return [
        one
        for one in gc.get_objects()
        if isinstance(one, functools._lru_cache_wrapper)
        and one.__module__.startswith("tff_keyboard_app.keyboard")
        and hasattr(one.__wrapped__, "__self__")
    ]


def type_words(keyboard):
    for word in WORDS:
        for end in range(1, len(word) + 1):
            keyboard.keyboard_strip(word[:end])
    assert sum(one.cache_info().currsize for one in caches_of_typed_text()) > 10


def is_anything_left():
    return any(one.cache_info().currsize for one in caches_of_typed_text())


@pytest.mark.parametrize("way", ["forget", "forget_all", "not learned"])
def test_forgotten_words_are_in_no_cache(keyboard, tmp_path, way):
    owner = UserHistory([keyboard.predictor], keyboard.predictor.cache, tmp_path / "words.cache")
    type_words(keyboard)
    if way == "not learned":
        owner.learn(" ".join(WORDS), learn=False)
    else:
        owner.learn(" ".join(WORDS))
        assert is_anything_left()
        owner.forget_all() if way == "forget_all" else owner.forget(" ".join(WORDS))
    assert not is_anything_left()


def test_the_page_keeps_a_message_to_itself(keyboard, tmp_path):
    """The server only sees that the text is empty again."""
    owner = UserHistory([keyboard.predictor], keyboard.predictor.cache, tmp_path / "words.cache")
    application = keyboard_server.KeyboardApplication({"name": keyboard}, owner)
    client = werkzeug_test.Client(application)
    sizes = []
    for _ in range(2):
        assert client.post("/api/suggest", json={"text": ""}).status_code == 200
        sizes.append(sum(one.cache_info().currsize for one in caches_of_typed_text()))
        type_words(keyboard)
    assert sizes[0] == sizes[1]  # of the words of the new strip


def test_a_cache_counts_and_forgets():
    calls = []
    double = typed_cache(lambda text: calls.append(text) or 2 * text, maxsize=2)
    assert [double("a"), double("a"), double("b")] == ["aa", "aa", "bb"]
    assert calls == ["a", "b"]
    forget_typed()
    assert double("a") == "aa"
    assert calls == ["a", "b", "a"]
