import pytest

from tff_keyboard_app.keyboard.misspellings import Misspellings

COMMON = ("tomorrow", "the", "receive", "happy", "definitely", "different", "until", "doesn't")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("tomorow", "tomorrow"),
        ("tomorro", "tomorrow"),
        ("teh", "the"),
        ("hapy", "happy"),
        ("recieve", "receive"),
        ("definately", "definitely"),
        ("diffrent", "different"),
        ("untill", "until"),
        ("doesnt", "doesn't"),
    ],
)
def test_usual_slips_of_a_word_twenty_times_as_common(slip, meant):
    assert Misspellings(dict.fromkeys(COMMON, 20.0) | {slip: 1.0}).meant_by(slip) == meant
    assert Misspellings(dict.fromkeys(COMMON, 19.9) | {slip: 1.0}).meant_by(slip) is None


@pytest.mark.parametrize(
    ("word", "other"),
    [("keys", "key"), ("cat", "can"), ("thank", "think"), ("worked", "worke"), ("a", "i")],
)
def test_other_words_are_no_slips(word, other):
    assert Misspellings({word: 1.0, other: 1000.0}).meant_by(word) is None


def test_an_unknown_word_means_nothing():
    assert Misspellings({"the": 1.0}).meant_by("teh") is None
