"""The families of the benchmark, and its counts on a keyboard of which the answers are known."""

import types

import pytest

from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_lab.benchmarks.phone import marks
from tff_keyboard_lab.benchmarks.phone.marks import Counts, Families, Typist

COUNTS = {
    "música": 40,
    "musica": 4,
    "él": 10,
    "el": 100,
    "papa": 9,
    "papá": 9,
    "está": 20,
    "esta": 3,
}


def test_kinds_of_words():
    families = Families(COUNTS, LANGUAGES["es"])
    assert families.clear() == [("musica", "música")]
    assert families.kind("música", "musica", 0) == "clear"
    assert families.kind("está", "esta", 0) == families.kind("él", "el", 0) == "ambiguous"
    assert families.unmarked() == ["el", "papa"]


def test_german_is_typed_in_two_ways():
    families = Families({"für": 50, "fur": 6, "straße": 5}, LANGUAGES["de"])
    assert list(families.ways) == [0, 1]
    assert families.clear() == [("fuer", "für"), ("strasse", "straße")]


class Keyboard:
    """Adds the mark of "musica", offers that of "esta", and changes "el" after "sabe"."""

    code = "es"
    language = LANGUAGES["es"]

    def keyboard_strip(self, text):
        *before, word = text.split(" ")
        made = {"musica": "música", "gato": "pato"}.get(word)
        if word == "sabe" and before[-1:] == ["el"]:
            before[-1], made = "él", word
        after = " ".join([*before, made]) + " " if made else ""
        correction = types.SimpleNamespace(applied_to=lambda _: after) if made else None
        slots = [types.SimpleNamespace(word="está"), None] if word == "esta" else [None, None]
        return types.SimpleNamespace(correction=correction, slots=slots)


@pytest.fixture
def typist():
    return Typist(Keyboard())


def test_words_alone(typist):
    typist.type_word(marks.ALONE_MARKED, "musica", "música")
    typist.type_word(marks.ALONE_MARKED, "esta", "está")
    typist.type_word(marks.ALONE_UNMARKED, "gato", "gato")
    assert typist.counts[marks.ALONE_MARKED] == Counts(words=2, right=1, on_strip=2, wrong=0)
    assert typist.counts[marks.ALONE_UNMARKED] == Counts(words=1, right=0, on_strip=0, wrong=1)
    assert typist.failures == {
        (marks.ALONE_MARKED, "esta", "está", "esta"): 1,
        (marks.ALONE_UNMARKED, "gato", "gato", "pato"): 1,
    }


def test_a_sentence_is_typed_without_marks_and_set_right(typist):
    families = Families(COUNTS, LANGUAGES["es"])
    typist.type_sentence("¿Él sabe? él sabe música, está el gato 12", families, 0)
    counts = typist.counts
    # "Él" has a question mark in front of it, and this keyboard does not know it.
    assert counts[marks.AMBIGUOUS] == Counts(words=3, right=1, on_strip=2, wrong=0)
    assert counts[marks.CLEAR] == Counts(words=1, right=1, on_strip=1, wrong=0)
    assert counts[marks.LOOKS_UNMARKED] == Counts(words=1, right=1, on_strip=1, wrong=0)
    assert counts[marks.OTHER] == Counts(words=3, right=2, on_strip=2, wrong=1)
    assert counts[marks.WITH_MARKS] == Counts(words=4, right=4, on_strip=4, wrong=0)


def test_a_right_word_that_the_next_one_changes_is_wrong(typist):
    families = Families(COUNTS, LANGUAGES["es"])
    typist.type_sentence("el sabe", families, 0)
    assert typist.counts[marks.LOOKS_UNMARKED] == Counts(words=1, right=0, on_strip=0, wrong=1)


def test_the_table_has_a_line_for_each_kind():
    counts = {kind: Counts() for kind in marks.KINDS} | {marks.CLEAR: Counts(8, 6, 7, 1)}
    lines = marks.table("Spanish", counts).splitlines()
    assert len(lines) == len(marks.KINDS) + 1
    assert lines[2].split()[-4:] == ["8", "75.0%", "87.5%", "12.5%"]
