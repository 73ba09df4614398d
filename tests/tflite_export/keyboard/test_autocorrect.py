"""Bayes' rule by hand, and what is left alone."""

import math

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import OOV, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tflite_export.keyboard.autocorrect import Autocorrect
from tflite_export.keyboard.languages import LANGUAGES
from tflite_export.keyboard.letter_model import LetterModel
from tflite_export.keyboard.typo_channel import TypoChannel

FREQUENCIES = {"the": 0.5, "ten": 0.1, "teh": 0.0005, "thanks": 0.2, "form": 0.05, "from": 0.1499}
WORDS = tuple(FREQUENCIES)
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())
AUTOCORRECT = Autocorrect(VOCABULARY, FREQUENCIES)
CHANNEL = TypoChannel(LANGUAGES["en"])


def next_word(**chances):
    row = np.full(len(VOCABULARY), 1e-4)
    row[OOV] = 0.1
    for word, chance in chances.items():
        row[VOCABULARY.words.index(word)] = chance
    return row


def test_posterior_of_an_unknown_word():
    row = next_word(thanks=0.01)
    slip = dict(CHANNEL.meant_words("thnks"))["thanks"]
    letters = math.exp(LetterModel(WORDS).log_probability("thnks"))
    score = 0.01 * slip
    found = AUTOCORRECT.correct("thnks", row)
    assert found.word == "thanks"
    assert found.score == pytest.approx(score)
    assert found.probability == pytest.approx(score / (score + 0.95 * 0.1 * letters))


def test_context_decides_what_was_meant():
    assert AUTOCORRECT.correct("tez", next_word(ten=0.5, the=1e-9)) is None  # far keys
    assert AUTOCORRECT.correct("tem", next_word(ten=0.5)).word == "ten"
    assert AUTOCORRECT.correct("tehn", next_word(ten=1e-9, the=1e-9)) is None
    assert AUTOCORRECT.correct("thd", next_word(the=0.5)).is_sure
    unsure = AUTOCORRECT.correct("thd", next_word(the=1e-5))
    assert unsure is None or not unsure.is_sure


def test_a_slip_in_the_vocabulary_is_doubted_and_a_word_is_not():
    assert AUTOCORRECT.correct("teh", next_word(the=0.3)).word == "the"
    assert AUTOCORRECT.correct("form", next_word()) is None
    assert AUTOCORRECT.correct("form", next_word(**{"from": 0.9})) is None
    assert AUTOCORRECT.correct("the", next_word(ten=0.9)) is None


@pytest.mark.parametrize("typed", ["", "t", "thé", "th3", "don't", "x" * 50])
def test_short_and_foreign_words_stay(typed):
    assert AUTOCORRECT.correct(typed, next_word(the=0.9)) is None


@pytest.mark.parametrize("typed", ["thanksd", "thankss", "tens", "tend", "theee", "tehhh"])
def test_stretched_words_and_other_forms_are_meant(typed):
    assert AUTOCORRECT.correct(typed, next_word(thanks=0.9, ten=0.9, the=0.9)) is None
    assert AUTOCORRECT.slip_without_context(typed)[1] == 0.0


def test_posterior_of_any_slip_without_context():
    slips = dict(CHANNEL.meant_words("thd"))
    letters = math.exp(LetterModel(WORDS).log_probability("thd"))
    slipped = slips["the"] * 0.5
    meant, share = AUTOCORRECT.slip_without_context("thd")
    assert list(meant) == ["the"]
    assert share == pytest.approx(slipped / (slipped + 0.95 * 0.05 * letters))
    # What the owner types counts, of words in the vocabulary and of others.
    more = slips["the"] * (0.5 + 0.3)
    assert AUTOCORRECT.slip_without_context("thd", (), {"the": 0.3})[1] == pytest.approx(
        more / (more + 0.95 * 0.05 * letters)
    )
    meant, share = AUTOCORRECT.slip_without_context("johnan", ["johann"], {"johann": 0.1})
    assert (list(meant), share > 0.9) == (["johann"], True)
    assert AUTOCORRECT.slip_without_context("johnan") == ({}.keys(), 0.0)


def test_words_near_a_beginning():
    found = AUTOCORRECT.near("thwn", next_word(thanks=0.2), 9)
    assert found[0] == ("thanks", pytest.approx(0.2)) or found[0][0] in ("ten", "the")
    assert {word for word, _ in found} <= set(WORDS)
    assert [word for word, _ in AUTOCORRECT.near("tgank", next_word(), 1)] == ["thanks"]
    # Those that only begin alike stand behind.
    assert [word for word, _ in AUTOCORRECT.near("frpmzz", next_word(**{"from": 1e-6}), 1)] == [
        "from"
    ]
    assert AUTOCORRECT.near("x9z", next_word(), 3) == []
    assert AUTOCORRECT.near("zzzz", next_word(), 3) == []


def test_no_chance_at_all_is_no_correction():
    assert AUTOCORRECT.correct("thd", np.zeros(len(VOCABULARY))) is None


def test_a_word_of_the_lexicon_is_right():
    vocabulary = Vocabulary((*SPECIAL_WORDS, "than", "thank"), NormalisationRules())
    frequencies = {"than": 0.01, "thank": 0.01}
    next_word = np.array([0, 0, 0.2, 0.05, 0.4, 0.35])
    tail = TailLexicon(["thabk"], np.array([0.5]))
    assert Autocorrect(vocabulary, frequencies).correct("thabk", next_word).word == "thank"
    known = Autocorrect(vocabulary, frequencies, tail)
    assert known.correct("thabk", next_word) is None
    assert known.correct("thamk", next_word).word == "thank"
