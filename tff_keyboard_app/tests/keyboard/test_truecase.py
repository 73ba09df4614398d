import pytest

from tff_keyboard_app.keyboard.truecase import Truecase


def test_built_in_forms_come_before_those_of_the_export():
    truecase = Truecase("en", ["MONDAY", "Singapore"])
    assert truecase.form("monday") == "Monday"
    assert truecase.form("singapore") == "Singapore"
    assert truecase.sure_form("singapore") is None  # a most frequent form is not always right
    assert truecase.form("zebra") == "zebra"


@pytest.mark.parametrize(
    ("typed", "form"),
    [("i", "I"), ("dont", "don't"), ("im", "I'm"), ("cant", "can't"), ("friday", "Friday")],
)
def test_english(typed, form):
    assert Truecase("en").sure_form(typed) == form
    assert Truecase("none").sure_form(typed) is None


@pytest.mark.parametrize("word", ["well", "were", "its", "ill", "id", "may", "march", "shell"])
def test_words_that_are_words_stay(word):
    assert Truecase("en").form(word) == word
