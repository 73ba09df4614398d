"""Bayes' rule by hand, and what is left alone."""

import dataclasses
import math

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import OOV, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_app.keyboard import autocorrect
from tff_keyboard_app.keyboard.autocorrect import Autocorrect
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.letter_model import LetterModel
from tff_keyboard_app.keyboard.slip_costs import packaged_slips
from tff_keyboard_app.keyboard.typo_channel import TypoChannel

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
    slip = autocorrect._MISSPELT * math.exp(-5.5)  # a vowel left out, by hand
    assert slip < dict(CHANNEL.meant_words("thnks"))["thanks"]
    slip = dict(CHANNEL.meant_words("thnks"))["thanks"]
    letters = max(1e-10, math.exp(LetterModel(WORDS).log_probability("thnks")))
    meant = slip * (0.5 * 0.01 + 0.5 * 0.2) ** autocorrect._TRUST
    so = autocorrect._MEANT_SO * (0.95 * 0.1 * letters) ** autocorrect._TRUST
    actual = AUTOCORRECT.correct("thnks", row)
    assert actual.word == "thanks"
    assert actual.score == pytest.approx(30.0 * slip * 0.01, rel=1e-5)
    assert actual.probability == pytest.approx(meant / (meant + so), rel=1e-5)


def test_what_is_learned_makes_a_misspelling_likelier():
    row = next_word(thanks=1e-6)
    alone = AUTOCORRECT.correct("thenks", row).probability
    learned = Autocorrect(VOCABULARY, FREQUENCIES, slips={("a", "e"): 1.0})
    assert learned.correct("thenks", row).probability > alone
    assert packaged_slips("en")["ie", "ei"] < packaged_slips("en")["swapped", ""]
    assert packaged_slips("xx") == {}


def test_slang_and_own_words_stay():
    row = next_word(thanks=0.1)
    assert AUTOCORRECT.correct("thnks", row).is_sure
    known = Autocorrect(VOCABULARY, FREQUENCIES, slang={"thnks"})
    assert known.is_word("thnks")
    kept = known.correct("thnks", next_word())
    assert kept is None or not kept.is_sure
    own = np.append(next_word(), 0.2)  # the owner's word
    kept = AUTOCORRECT.correct("thnks", own, {"thnks": len(VOCABULARY)})
    assert kept is None or not kept.is_sure


@pytest.mark.parametrize("typed", ["thaaanks", "thankss", "thnaks", "htanks", "thanls"])
def test_slips_of_a_word(typed):
    assert AUTOCORRECT.correct(typed, next_word(thanks=0.5)).word == "thanks"


def test_context_decides_what_was_meant():
    assert not AUTOCORRECT.correct("tez", next_word(ten=0.5, the=1e-9)).is_sure  # far keys
    assert AUTOCORRECT.correct("tem", next_word(ten=0.5)).word == "ten"
    assert not AUTOCORRECT.correct("tehn", next_word(ten=1e-9, the=1e-9)).is_sure
    assert AUTOCORRECT.correct("thd", next_word(the=0.5)).is_sure
    # A frequent word that surprises the model counts half.
    assert AUTOCORRECT.correct("thd", next_word(the=1e-5)).is_sure
    rare = Autocorrect(VOCABULARY, FREQUENCIES | {"the": 1e-9})
    unsure = rare.correct("thd", next_word(the=1e-9))
    assert unsure is None or not unsure.is_sure


@pytest.mark.parametrize(
    ("typed", "meant", "is_sure"),
    [
        ("tha8ks", None, False),  # the digit is not above "n"
        ("5hanks", "thanks", True),
        ("th3", "the", False),  # short
        ("5he", "the", False),
        ("5p", "to", False),
        ("f4om", "from", False),
        ("class6", "classy", False),  # at the end, digits are meant
        ("4th", None, False),  # a word
        ("5h3", None, False),  # two digits
    ],
)
def test_a_digit_for_a_letter_below_it(typed, meant, is_sure):
    words = (*WORDS, "to", "classy", "4th")
    frequencies = dict.fromkeys(words, 0.1)
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules())
    row = np.full(len(vocabulary), 0.1)
    actual = Autocorrect(vocabulary, frequencies).correct(typed, row)
    if meant is None:
        assert actual is None
    else:
        assert (actual.word, actual.is_sure) == (meant, is_sure)


def test_forms_that_no_list_has_stay_in_an_agglutinative_language():
    words = {"kitap": 0.02, "sokak": 0.02, "sokaklar": 0.01, "duvar": 0.02, "duvarlar": 0.01}
    words |= {"banka": 0.02, "kitapları": 0.01}
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(language="tr"))
    row = np.full(len(vocabulary), 0.1)
    turkish, other = (
        Autocorrect(
            vocabulary,
            words,
            language=dataclasses.replace(LANGUAGES["tr"], is_agglutinative=is_agglutinative),
        )
        for is_agglutinative in (True, False)
    )
    typed = "kitaplar"  # a form; "sokkalar" is not one
    actual = turkish.correct(typed, row)
    assert (actual.probability if actual else 0.0) < other.correct(typed, row).probability / 2
    assert turkish.correct("sokkalar", row) == other.correct("sokkalar", row)
    assert turkish.correct("sokkalar", row).word == "sokaklar"


def test_a_slip_in_the_vocabulary_is_doubted_and_a_word_is_not():
    assert AUTOCORRECT.correct("teh", next_word(the=0.3)).word == "the"
    assert AUTOCORRECT.correct("form", next_word()) is None
    confused = AUTOCORRECT.correct("form", next_word(**{"from": 0.9}))
    assert (confused.word, confused.is_sure) == ("from", False)  # offered only
    assert AUTOCORRECT.correct("the", next_word(ten=0.9)) is None


@pytest.mark.parametrize("typed", ["", "t", "thé", "t33", "5", "don't", "x" * 50])
def test_short_and_foreign_words_stay(typed):
    assert AUTOCORRECT.correct(typed, next_word(the=0.9)) is None


@pytest.mark.parametrize("typed", ["thanksd", "tens", "tend", "theee", "tehhh"])
def test_stretched_words_and_other_forms_are_meant(typed):
    assert AUTOCORRECT.correct(typed, next_word(thanks=0.9, ten=0.9, the=0.9)) is None
    assert AUTOCORRECT.slip_without_context(typed)[1] < 1e-4


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
    assert AUTOCORRECT.slip_without_context("johnan") == ([], 0.0)


def test_a_misspelling_that_no_slip_of_the_finger_explains_is_a_slip_without_context():
    assert "the" not in dict(CHANNEL.meant_words("pthe"))
    meant, share = AUTOCORRECT.slip_without_context("pthe")
    assert (list(meant), share > 0.9) == (["the"], True)


def test_words_near_a_beginning():
    actual = AUTOCORRECT.near("thwn", next_word(thanks=0.2), 9)
    assert actual[0] == ("thanks", pytest.approx(0.2)) or actual[0][0] in ("ten", "the")
    assert {word for word, _ in actual} <= set(WORDS)
    assert [word for word, _ in AUTOCORRECT.near("tgank", next_word(), 1)] == ["thanks"]
    # Those that only begin alike stand behind.
    assert [word for word, _ in AUTOCORRECT.near("frpmzz", next_word(**{"from": 1e-6}), 1)] == [
        "from"
    ]
    assert AUTOCORRECT.near("x9z", next_word(), 3) == []
    assert AUTOCORRECT.near("zzzz", next_word(), 3) == []


def test_no_chance_at_all_is_no_correction():
    assert Autocorrect(VOCABULARY, {}).correct("thd", np.zeros(len(VOCABULARY))) is None


def test_a_word_of_the_lexicon_is_right():
    vocabulary = Vocabulary((*SPECIAL_WORDS, "than", "thank"), NormalisationRules())
    frequencies = {"than": 0.01, "thank": 0.01}
    next_word = np.array([0, 0, 0.2, 0.05, 0.4, 0.35])
    tail = TailLexicon(["thabk"], np.array([0.5]))
    assert Autocorrect(vocabulary, frequencies).correct("thabk", next_word).word == "thank"
    known = Autocorrect(vocabulary, frequencies, tail)
    assert known.correct("thabk", next_word) is None
    assert known.correct("thamk", next_word).word == "thank"
