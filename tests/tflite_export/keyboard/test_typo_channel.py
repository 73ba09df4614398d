import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tflite_export.keyboard import typo_channel
from tflite_export.keyboard.typo_channel import NEIGHBOURS, meant_words

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=9)


def slips_of(meant):
    """What fingers make of a word: (typed, which rule), written from the side of the word."""
    for i, letter in enumerate(meant):
        yield meant[:i] + meant[i + 1 :], "left out"
        if i and meant[i - 1] != letter:
            yield meant[: i - 1] + letter + meant[i - 1] + meant[i + 1 :], "swapped"
        for key in NEIGHBOURS[letter]:
            yield meant[:i] + key + meant[i + 1 :], "neighbour"
            yield meant[: i + 1] + key + meant[i + 1 :], "added"
        yield meant[: i + 1] + letter + meant[i + 1 :], "added"
        if letter in "aeiou":
            for vowel in set("aeiou") - {letter}:
                yield meant[:i] + vowel + meant[i + 1 :], "vowel"


@hypothesis.given(WORDS)
def test_every_slip_leads_back_to_the_word(meant):
    for typed, rule in slips_of(meant):
        hypothesis.assume(typed)
        assert meant in dict(meant_words(typed)), rule


@hypothesis.given(WORDS)
def test_nothing_else_leads_to_a_word(typed):
    for meant, probability in meant_words(typed):
        assert typed in {slip for slip, _ in slips_of(meant)}
        assert 0.0 < probability < 1.0 - typo_channel.NO_SLIP


@hypothesis.given(WORDS.filter(lambda word: len(word) > 2))
@examples(40)
def test_the_slips_of_a_word_are_about_what_is_left(meant):
    total = 0.0
    for typed in {slip for slip, _ in slips_of(meant)} - {meant, ""}:
        total += sum(p for word, p in meant_words(typed) if word == meant)
    assert total < 1.6 * (1.0 - typo_channel.NO_SLIP)


@pytest.mark.parametrize(
    ("key", "around"), [("g", "rtyfhvb"), ("q", "wa"), ("p", "ol"), ("z", "asx")]
)
def test_keys_around_a_key(key, around):
    assert set(NEIGHBOURS[key]) <= set(around)
    assert all(key in NEIGHBOURS[other] for other in NEIGHBOURS[key])
    assert len(NEIGHBOURS[key]) >= len(around) - 1
