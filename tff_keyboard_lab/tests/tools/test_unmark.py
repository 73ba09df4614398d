"""Decides which strings of a list are words without their marks."""

from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_lab.tools import unmark

FREQUENCIES = {
    "música": 6e-5, "musica": 1e-5, "papá": 5e-5, "papa": 6e-5, "días": 5e-4, "dias": 6e-5,
    "increíble": 6e-5, "increible": 1.2e-5, "notó": 1e-5, "noto": 5e-6, "atún": 6e-8, "atun": 1e-8,
}  # fmt: skip


def unmarked(**changes):
    arguments = {
        "frequencies": FREQUENCIES,
        "vocabulary": {"dias", "días"},
        "lexicon": set(),
        "language": LANGUAGES["es"],
        "counts": {},
    }
    return unmark.unmarked(**arguments | changes)


def test_a_string_of_which_the_marked_word_is_six_times_as_frequent():
    assert unmarked() == {"musica"}  # "dias" is in the vocabulary
    assert unmarked(vocabulary=set()) == {"musica", "dias"}
    assert unmarked(lexicon={"atun"}) == {"musica", "atun"}  # rare, but offered


def test_a_string_that_edited_text_should_have_and_does_not():
    counts = {"increíble": 15, "notó": 100, "papá": 100}
    assert unmarked(counts=counts) == {"musica", "increible"}  # 15 x 0.2 = 3 expected
    assert unmarked(counts=counts | {"increíble": 14}) == {"musica"}
    assert unmarked(counts=counts | {"increible": 1}) == {"musica"}


def test_german_strings_with_ss_that_the_vocabulary_has_with_sharp_s_only():
    actual = unmark.unmarked({}, {"größe", "maße", "weiß", "weiss"}, set(), LANGUAGES["de"], {})
    assert actual == {"grösse", "grosse", "groesse"}  # "Masse" is a word, and so is "weiss" here


def test_english_has_none():
    assert unmark.unmarked({"cafe": 1e-6, "café": 1e-4}, set(), set(), LANGUAGES["en"], {}) == set()
