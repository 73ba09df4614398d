"""Both tokenisers: equal on any string, stable, and correct for typical text."""

import os
import subprocess
import sys
import unicodedata

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.own_seconds import own_seconds
from tff_keyboard.data.text import python_tokenizer as text_python
from tff_keyboard.data.text import tokenizer, word_characters
from tff_keyboard.data.vocabulary import NormalisationRules

ALL_RULES = [
    NormalisationRules(),
    NormalisationRules(lowercase=False),
    NormalisationRules(mode="whitespace"),
    NormalisationRules(mode="whitespace", lowercase=False),
    NormalisationRules(language="tr"),
    NormalisationRules(language="tr", mode="whitespace"),
]
RULES_IDS = [
    f"{rules.language}-{rules.mode}-{'lower' if rules.lowercase else 'cased'}"
    for rules in ALL_RULES
]

# Difficult text: case with context or locale, marks, joiners, masks, numbers.
TRICKY = st.sampled_from(
    [
        *"'’`´-‐.,:<>#@ \t\n\r\0?1290aIizZ",
        *"İIıŁǰJ̌ÌĮΣσςßẞſﬁΩKÅ",
        *"\u0300\u0301\u0316\u0307\u0345\u05b0\u0e33\u1e9e\u3099\u1161\u11a8가각",
        *"\u200b\u200c\u200d\ufe0e\ufe0f\u20e3\u00ad\ufeff\u0085\u2028\u00a0\u3000",
        *"😂❤👍🏽🇸🇬👩💻♀\U0001fae0\U0001f979",
        *"Ⅷⓐ½²①™ﷺ株Ａ１＜",
        "\U0001e4d0\ua7c0\U00010570\U0001df00\u0870",  # later than Unicode 12.1
        "http://", "https://x.y/z", "www.", "<url>", "<#>", "<DECIMAL>", "3.50", "10:30",
    ]
)  # fmt: skip
TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.lists(TRICKY, max_size=20).map("".join),
    st.lists(st.one_of(TRICKY, st.characters(exclude_categories=["Cs"])), max_size=30).map("".join),
)


def both(rules, texts):
    """Returns the tokens by TensorFlow and by plain Python, which `prepare` uses."""
    tokenizer = text_python.PythonTokenizer(rules)
    plain = tokenizer.tokenize(texts)
    assert [tokenizer.joined(given) for given in texts] == list(map(" ".join, plain))
    return tokens(rules, texts), plain


def tokens(rules, texts):
    """Returns the tokens by TensorFlow."""
    given = tf.constant([text.encode("utf-8", "replace") for text in texts], tf.string)
    rows = tokenizer.Tokenizer(rules).tokens(given).to_list()
    return [[token.decode() for token in row] for row in rows]


@pytest.mark.parametrize("rules", ALL_RULES, ids=RULES_IDS)
@hypothesis.given(texts=st.lists(TEXTS, min_size=1, max_size=20))
@examples(60)
def test_twins_agree_and_tokens_are_stable(rules, texts):
    with_tensorflow, with_python = both(rules, texts)
    assert with_tensorflow == with_python
    again = tokens(rules, [" ".join(words) for words in with_python])
    assert again == with_python


@pytest.mark.parametrize("rules", ALL_RULES, ids=RULES_IDS)
@pytest.mark.parametrize("every", [64, pytest.param(1, marks=pytest.mark.slow)])
def test_twins_agree_on_every_character(rules, every):
    code_points = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    tested = [
        c
        for c in code_points
        if c < 0x600 or (c < 0x20000 and c % every == 0) or c % (64 * every) == 0
    ]
    # Alone, and between letters, where marks compose and sigma changes.
    texts = [f"{chr(c)} x{chr(c)}Y" for c in tested]
    with_tensorflow, with_python = both(rules, texts)
    assert with_tensorflow == with_python


@pytest.mark.parametrize("rules", ALL_RULES, ids=RULES_IDS)
def test_lone_surrogates_count_as_question_marks(rules):
    with_tensorflow, with_python = both(rules, ["a\ud800b \udfff"])
    assert with_tensorflow == with_python == both(rules, ["a?b ?"])[0]


def test_empty_batch_and_empty_text():
    assert both(ALL_RULES[0], []) == ([], [])
    assert both(ALL_RULES[0], ["", "?! ..."]) == ([[], []], [[], []])


@pytest.mark.parametrize(
    "typed, tokens",
    [
        ("Haha, OK! See you @ 7:30pm…", ["haha", "ok", "see", "you", "7:30", "pm"]),
        ("don’t  DON'T don`t 'tis goin'", ["don't", "don't", "don't", "tis", "goin"]),
        ("well-known e\u2010mail -- no", ["well-known", "e-mail", "no"]),
        ("b4 2moro 4u $3.50 1,000", ["b4", "2moro", "4u", "3.50", "1,000"]),
        ("call <#> at <TIME> <3 <url>", ["call", "<#>", "at", "<time>", "3", "<url>"]),
        ("see http://a.b/c?d=1 or WWW.x.org now", ["see", "<url>", "or", "<url>", "now"]),
        ("awww.nice", ["awww", "nice"]),
        ("😂😂 👍🏽 👩‍💻 🇸🇬 ❤️x", ["😂", "😂", "👍🏽", "👩‍💻", "🇸🇬", "❤️", "x"]),
        ("ﬁne ＡＢ caf\u0065\u0301 ΟΔΟΣ", ["fine", "ab", "café", "οδος"]),
        ("नमस्ते می‌خواهم", ["नमस्ते", "می‌خواهم"]),
    ],
)
def test_typical_text(typed, tokens):
    with_tensorflow, with_python = both(NormalisationRules(), [typed])
    assert with_tensorflow == with_python == [tokens]


@pytest.mark.parametrize("mode", ["words", "whitespace"])
@pytest.mark.parametrize(
    "language, typed, tokens",
    [
        ("tr", "ISPARTA İstanbul iyi ılık DIŞ", ["ısparta", "istanbul", "iyi", "ılık", "dış"]),
        ("tr", "I\u0307ZM\u0130R WI-FI", ["izmir", "wı-fı"]),
        ("tr", "<TIME> <time> <kapı>", ["<tıme>", "<time>", "<kapı>"]),
        ("de", "STRAẞE Straße STRASSE Öl ÄÖÜ", ["straße", "straße", "strasse", "öl", "äöü"]),
        ("de", "I İ", ["i", "i\u0307"]),
    ],
)
def test_lower_case_by_language(mode, language, typed, tokens):
    if mode == "whitespace":  # the text is already in its normal form
        typed = unicodedata.normalize("NFC", typed)
    with_tensorflow, with_python = both(NormalisationRules(mode=mode, language=language), [typed])
    assert with_tensorflow == with_python == [tokens]


def test_whitespace_mode_only_splits():
    typed = " = Title =\u3000The <unk> 's 3 @-@ day\r\n"
    rules = NormalisationRules(mode="whitespace", lowercase=False)
    expected = ["=", "Title", "=", "The", "<unk>", "'s", "3", "@-@", "day"]
    assert both(rules, [typed]) == ([expected], [expected])


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["tr_TR.UTF-8", "lt_LT.UTF-8"])
def test_lower_case_does_not_depend_on_the_locale(locale):
    script = (
        "from tff_keyboard.data import vocabulary\n"
        "from tff_keyboard.data.text.tokenizer import Tokenizer\n"
        "r = Tokenizer(vocabulary.NormalisationRules()).tokens(['I ISTANBUL İ Ì Į̃']).to_list()\n"
        "print(ascii([[token.decode() for token in row] for row in r]))"
    )
    environment = {**os.environ, "LC_ALL": locale, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    expected = text_python.PythonTokenizer(NormalisationRules()).tokenize(["I ISTANBUL İ Ì Į̃"])
    assert done.stdout.strip() == ascii(expected)


def test_python_twin_is_linear_in_time():
    """Megabytes without a blank, in forms that make a backtracking pattern slow."""
    tokenizer = text_python.PythonTokenizer(NormalisationRules())
    pieces = ("a", "1", "1.", "a-", "<", "<a", "😂\u200d", "www", "ab'", "\u0301\u0316")
    with own_seconds() as spent:
        for piece in pieces:
            tokenizer.tokenize_one(piece * (200_000 // len(piece)))
        assert spent() < 30  # quadratic would be ten minutes


def test_twins_agree_on_long_runs():
    texts = ["a" * 2500, "e" + "\u0301\u0316" * 3000, "x" * 999 + "\u0085" + "y" * 1500 + " z"]
    with_tensorflow, with_python = both(NormalisationRules(), texts)
    assert with_tensorflow == with_python
    assert [len(token) for token in with_python[0]] == [1000, 1000, 500]


def test_hidden_characters_are_those_of_unicode():
    pairs = word_characters.parse_ranges(word_characters.HIDDEN_RANGES)
    actual = {code for first, last in pairs for code in range(first, last + 1)}
    categories = [unicodedata.category(chr(code)) for code in range(0x110000)]
    hidden = {
        code
        for code, category in enumerate(categories)
        if category in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")
    }
    assert hidden <= actual
    assert {categories[code] for code in actual - hidden} <= {"Cn"}
    blanks = word_characters.parse_ranges(word_characters.WHITESPACE_RANGES)
    assert actual >= {code for first, last in blanks for code in range(first, last + 1)}


def test_ranges_are_sorted_and_disjoint():
    words = word_characters
    for table in (words.WORD_RANGES, words.WHITESPACE_RANGES, words.HIDDEN_RANGES):
        pairs = word_characters.parse_ranges(table)
        flat = [point for pair in pairs for point in pair]
        assert flat == sorted(flat)
        assert all(first <= last for first, last in pairs)
