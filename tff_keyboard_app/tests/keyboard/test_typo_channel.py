import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard_app.keyboard import typo_channel
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.typo_channel import TypoChannel

CHANNELS = {code: TypoChannel(language) for code, language in LANGUAGES.items()}
CODES = st.sampled_from(sorted(LANGUAGES))


def words(code, least=1):
    return st.text(sorted(LANGUAGES[code].letters), min_size=least, max_size=9)


TYPED = CODES.flatmap(lambda code: st.tuples(st.just(code), words(code)))


def slips_of(code, meant):
    """What fingers make of a word: (typed, which rule), written from the side of the word."""
    neighbours, vowels = CHANNELS[code].neighbours, LANGUAGES[code].vowels
    for i, letter in enumerate(meant):
        yield meant[:i] + meant[i + 1 :], "left out"
        if i and meant[i - 1] != letter:
            yield meant[: i - 1] + letter + meant[i - 1] + meant[i + 1 :], "swapped"
        for key in neighbours[letter]:
            yield meant[:i] + key + meant[i + 1 :], "neighbour"
            yield meant[: i + 1] + key + meant[i + 1 :], "added"
        yield meant[: i + 1] + letter + meant[i + 1 :], "added"
        if letter in vowels:
            for vowel in set(vowels) - {letter}:
                yield meant[:i] + vowel + meant[i + 1 :], "vowel"


@hypothesis.given(TYPED)
def test_every_slip_leads_back_to_the_word(case):
    code, meant = case
    for typed, rule in slips_of(code, meant):
        hypothesis.assume(typed)
        assert meant in dict(CHANNELS[code].meant_words(typed)), rule


@hypothesis.given(words("en"))
def test_nothing_else_leads_to_a_word(typed):
    for meant, probability in CHANNELS["en"].meant_words(typed):
        assert typed in {slip for slip, _ in slips_of("en", meant)}
        assert 0.0 < probability < 1.0 - typo_channel.NO_SLIP


@hypothesis.given(words("en", least=3))
@examples(40)
def test_the_slips_of_a_word_are_about_what_is_left(meant):
    total = 0.0
    for typed in {slip for slip, _ in slips_of("en", meant)} - {meant, ""}:
        total += sum(p for word, p in CHANNELS["en"].meant_words(typed) if word == meant)
    assert total < 1.6 * (1.0 - typo_channel.NO_SLIP)


@pytest.mark.parametrize(
    ("code", "key", "around"),
    [
        ("en", "g", "rtyfhvb"),
        ("en", "q", "wa"),
        ("en", "p", "ol"),
        ("en", "z", "asx"),
        ("de", "z", "tugh"),
        ("de", "y", "asx"),
        ("de", "ö", "lpäü"),
        ("tr", "ı", "uojk"),
        ("tr", "ş", "lpğiç"),
        ("es", "ñ", "lpo"),
        ("pt", "ã", ""),
    ],
)
def test_keys_around_a_key(code, key, around):
    neighbours = CHANNELS[code].neighbours
    assert set(neighbours[key]) <= set(around)
    assert all(key in neighbours[other] for other in neighbours[key])
    assert len(neighbours[key]) >= len(set(around)) - 1
