"""Lower case and capitals by the rules of each language."""

import hypothesis
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.text import casing
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import LANGUAGES, NormalisationRules

# Alphabets in the order of each language, small and large.
ALPHABETS = {
    "en": ("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "de": ("abcdefghijklmnopqrstuvwxyzäöüß", "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÜẞ"),
    "es": ("abcdefghijklmnñopqrstuvwxyzáéíóúü", "ABCDEFGHIJKLMNÑOPQRSTUVWXYZÁÉÍÓÚÜ"),
    "nl": ("abcdefghijklmnopqrstuvwxyzáàçéëèêïíóöúü", "ABCDEFGHIJKLMNOPQRSTUVWXYZÁÀÇÉËÈÊÏÍÓÖÚÜ"),
    "pt": ("abcdefghijklmnopqrstuvwxyzáâãàçéêíóôõú", "ABCDEFGHIJKLMNOPQRSTUVWXYZÁÂÃÀÇÉÊÍÓÔÕÚ"),
    "tr": ("abcçdefgğhıijklmnoöprsştuüvyz", "ABCÇDEFGĞHIİJKLMNOÖPRSŞTUÜVYZ"),
}
WORDS = st.sampled_from(LANGUAGES).flatmap(
    lambda code: st.tuples(st.just(code), st.text(ALPHABETS[code][0], min_size=1, max_size=12))
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_alphabets(language):
    small, large = ALPHABETS[language]
    assert casing.lower(large, language) == small
    assert casing.upper(small, language) == large
    assert [casing.capitalised(letter, language) for letter in small] == list(large)


@hypothesis.given(WORDS)
@examples(100)
def test_lower_reverses_upper_and_matches_the_tokenizer(case):
    language, word = case
    tokenizer = PythonTokenizer(NormalisationRules(language=language))
    for cased in (casing.upper(word, language), casing.capitalised(word, language)):
        assert casing.lower(cased, language) == word
        assert tokenizer.tokenize_one(cased) == [word]


@pytest.mark.parametrize(
    ("language", "typed", "small"),
    [
        ("tr", "I", "ı"),
        ("tr", "İ", "i"),
        ("tr", "ı", "ı"),
        ("tr", "i", "i"),
        ("en", "I", "i"),
        ("en", "İ", "i\u0307"),
        ("de", "ẞ", "ß"),
        ("de", "ß", "ß"),
        ("de", "SS", "ss"),
        ("tr", "ΟΔΟΣ", "οδος"),
    ],
)
def test_letters_that_differ_by_language(language, typed, small):
    assert casing.lower(typed, language) == small


@pytest.mark.parametrize(
    ("language", "word", "shown"),
    [
        ("nl", "ijs", "IJs"),
        ("nl", "ij", "IJ"),
        ("nl", "i", "I"),
        ("nl", "lijst", "Lijst"),
        ("en", "ijs", "Ijs"),
    ],
)
def test_dutch_ij_counts_as_one_letter(language, word, shown):
    assert casing.capitalised(word, language) == shown
