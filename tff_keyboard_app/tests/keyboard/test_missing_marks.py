"""Strings without marks: every way to leave marks out, and Bayes' rule between two right words."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tff_keyboard.data.vocabulary import OOV, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.predictors.tail_lexicon import TailLexicon
from tff_keyboard_app.keyboard import autocorrect, missing_marks
from tff_keyboard_app.keyboard.autocorrect import Autocorrect
from tff_keyboard_app.keyboard.languages import LANGUAGES
from tff_keyboard_app.keyboard.missing_marks import MissingMarks, plain_forms

MARKED = [code for code in LANGUAGES if LANGUAGES[code].marked]


def ways_to_type(word, code):
    """Returns every string that is typed for a word if some of its marks are left out, or none."""
    marked = LANGUAGES[code].marked
    letters = [
        [letter, *(plain for plain, others in marked.items() if letter in others)]
        for letter in word
    ]
    return {"".join(typed) for typed in itertools.product(*letters)}


WORDS = st.sampled_from(MARKED).flatmap(
    lambda code: st.tuples(
        st.just(code),
        st.lists(
            st.text(sorted({*LANGUAGES[code].letters, *"aeous"}), min_size=1, max_size=7),
            min_size=1,
            max_size=4,
            unique=True,
        ),
    )
)


@hypothesis.given(WORDS)
def test_exactly_the_words_that_a_string_can_be_are_found(case):
    code, words = case
    marks = MissingMarks(words, LANGUAGES[code])
    strings = {typed for word in words for typed in ways_to_type(word, code)}
    for typed in strings:
        expected = {word for word in words if typed in ways_to_type(word, code)} - {typed}
        assert marks.likely(typed).keys() == expected
        assert marks.likely(typed, words=words) == marks.likely(typed)


@hypothesis.given(WORDS)
def test_a_beginning_without_marks_finds_the_word(case):
    code, words = case
    marks = MissingMarks(words, LANGUAGES[code])
    for word in words:
        for size in range(1, len(word) + 1):
            for start in ways_to_type(word[:size], code) - {word[:size]}:
                if not word.startswith(start):
                    assert word in set(marks.words_from(start))


@pytest.mark.parametrize(
    ("code", "typed", "meant"),
    [
        ("de", "fur", "für"),
        ("de", "fuer", "für"),
        ("de", "strasse", "straße"),
        ("de", "uebergroesse", "übergröße"),
        ("de", "grossstadt", "großstadt"),
        ("tr", "gorusuruz", "görüşürüz"),
        ("tr", "isik", "ışık"),
        ("tr", "kagit", "kâğıt"),
        ("es", "espanol", "español"),
        ("es", "pinguino", "pingüino"),
        ("nl", "financiele", "financiële"),
        ("pt", "extraordinario", "extraordinário"),
        ("de", "u" * 12, "ü" * 12),
    ],
)
def test_marks_that_are_left_out(code, typed, meant):
    assert MissingMarks([meant], LANGUAGES[code]).likely(typed) == {
        meant: missing_marks.WITHOUT_MARKS
    }
    assert typed in plain_forms(meant, LANGUAGES[code])


def test_typed_marks_are_kept():
    marks = MissingMarks(["günaydın", "ışık", "işik"], LANGUAGES["tr"])
    assert marks.likely("günaydin") == {"günaydın": missing_marks.WITH_SOME_MARKS}
    assert marks.likely("ışik") == {"ışık": missing_marks.WITH_SOME_MARKS}
    assert marks.likely("isik").keys() == {"ışık", "işik"}


def test_a_language_without_marks_has_none():
    marks = MissingMarks(["café", "für"], LANGUAGES["en"])
    assert marks.likely("cafe") == marks.likely("fur") == {}
    assert list(marks.words_from("caf")) == []
    assert plain_forms("café", LANGUAGES["en"]) == ("café",)


FREQUENCIES = {"el": 0.03, "él": 0.01, "sabe": 0.01, "gato": 0.01, "seria": 0.001}
TAIL = TailLexicon(["corazon", "corazón", "sería"], np.array([0.02, 0.04, 0.06]))
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *FREQUENCIES), NormalisationRules(language="es"))
SPANISH = Autocorrect(VOCABULARY, FREQUENCIES, TAIL, LANGUAGES["es"])


def next_word(**chances):
    row = np.full(len(VOCABULARY), 1e-6)
    row[OOV] = 0.1
    for word, chance in chances.items():
        row[VOCABULARY.words.index(word)] = chance
    return row


@pytest.mark.parametrize(("with_mark", "without"), [(0.2, 0.001), (0.02, 0.02), (0.001, 0.2)])
def test_context_decides_between_two_right_words(with_mark, without):
    actual = SPANISH.correct("el", next_word(él=with_mark, el=without))
    marked, plain = 0.4 * with_mark, 0.95 * without
    assert (actual.word, actual.adds_marks) == ("él", True)
    assert actual.probability == pytest.approx(marked / (marked + plain), rel=1e-4)
    assert actual.is_sure == (marked / (marked + plain) >= 0.9)


def test_an_implausible_mark_is_not_offered_and_typed_marks_stay():
    assert SPANISH.correct("el", next_word(él=1e-6, el=0.5)) is None
    actual = SPANISH.correct("él", next_word(él=1e-6, el=0.5))
    assert actual is None or not actual.is_sure


def test_the_context_without_the_cache_decides_about_the_typed_word():
    row = next_word(él=0.1, el=0.1)
    learned, fresh = (
        SPANISH.correct("el", row),
        SPANISH.correct("el", row, as_typed=next_word(el=0.001)),
    )
    assert fresh.probability > learned.probability


def test_words_outside_the_vocabulary_are_compared_by_frequency_as_well():
    row = next_word(seria=1e-5)
    tail = 0.06 * 0.1  # share of unknown words, times P(unknown | context)
    actual = SPANISH.with_marks("seria", row)
    marked, plain = 0.4 * tail, 0.95 * 1e-5
    assert actual.probability == pytest.approx(marked / (marked + plain), rel=0.1)
    both = Autocorrect(VOCABULARY, {}, TAIL, LANGUAGES["es"]).with_marks("corazon", row)
    marked, plain = (
        factor * (0.5 * share * 0.1 + 0.5 * share * 0.05)
        for factor, share in ((0.4, 0.04), (0.95, 0.02))
    )
    assert both.probability == pytest.approx(marked / (marked + plain), rel=0.15)  # share steps


def test_a_listed_string_without_marks_is_no_word():
    row = next_word()
    assert not SPANISH.correct("corazon", row).is_sure
    listed = Autocorrect(VOCABULARY, FREQUENCIES, TAIL, LANGUAGES["es"], misspelt={"corazon"})
    actual = listed.correct("corazon", row)
    assert (actual.word, actual.is_sure, actual.adds_marks) == ("corazón", True, True)


def test_the_next_word_decides_as_well():
    row = next_word(él=0.01, el=0.05)
    chances = {"él": 0.03, "el": 0.0001}
    actual = SPANISH.with_marks("el", row, following=chances.__getitem__)
    marked, plain = 0.4 * 0.01 * 0.03, 0.95 * 0.05 * 0.0001
    assert actual.probability == pytest.approx(marked / (marked + plain), rel=1e-4)
    assert actual.is_sure == (marked / (marked + plain) >= autocorrect.APPLIED_BEFORE_FROM)
    assert not SPANISH.with_marks("el", row).is_sure
    never = SPANISH.with_marks("el", row, following=lambda word: 0.0)
    assert (never.probability, never.is_sure) == (0.0, False)


def test_a_single_letter_gets_its_mark_and_nothing_else():
    words = {"e": 0.04, "é": 0.01, "w": 0.2}
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(language="pt"))
    portuguese = Autocorrect(vocabulary, words, language=LANGUAGES["pt"])
    row = np.full(len(vocabulary), 1e-4)
    row[vocabulary.words.index("w")] = 0.9
    assert portuguese.correct("e", row).word == "é"
    row[vocabulary.words.index("é")] = 0.05
    assert portuguese.correct("e", row).is_sure
    assert portuguese.correct("w", row) is None


def test_the_likeliest_of_several_marked_words_is_sure_if_it_is_clear():
    def correct(prêmio, prémio):
        words = {"prêmio": prêmio, "prémio": prémio}
        vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(language="pt"))
        row = np.full(len(vocabulary), 0.01)
        row[-2:] = prêmio, prémio
        return Autocorrect(vocabulary, words, language=LANGUAGES["pt"]).correct("premio", row)

    assert (correct(0.1, 0.02).word, correct(0.1, 0.02).is_sure) == ("prêmio", True)
    assert (correct(0.1, 0.09).word, correct(0.1, 0.09).is_sure) == ("prêmio", False)


def test_an_own_word_gets_its_marks():
    row = np.append(next_word(), 0.2)
    actual = SPANISH.correct("nunez", row, {"núñez": len(VOCABULARY)})
    assert (actual.word, actual.is_sure) == ("núñez", True)


def test_forms_that_no_list_has_get_their_marks():
    words = {"kıpır": 0.01, "tatlı": 0.01, "kapı": 0.02, "kapıdan": 0.01, "sarı": 0.02}
    words |= {"sarıdan": 0.01, "kapıyı": 0.01, "sarıyı": 0.01, "yazı": 0.01}
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(language="tr"))
    row = np.full(len(vocabulary), 0.01)
    row[OOV] = 0.2
    turkish = Autocorrect(vocabulary, words, language=LANGUAGES["tr"])
    for typed, meant in [("tatliyi", "tatlıyı"), ("yazidan", "yazıdan")]:
        actual = turkish.correct(typed, row)
        assert (actual.word, actual.is_sure, actual.adds_marks) == (meant, True, True)


@pytest.mark.parametrize(("share_of_unmarked", "is_sure"), [(0.0, True), (0.02, False)])
def test_a_form_stays_if_it_is_a_form_without_marks_as_well(share_of_unmarked, is_sure):
    words = {"kat": 0.02, "katlar": 0.01, "kar": 0.02, "karlar": 0.01, "şar": 0.02}
    words |= {"sar": share_of_unmarked} if share_of_unmarked else {}
    vocabulary = Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules(language="tr"))
    row = np.full(len(vocabulary), 1e-4)
    row[OOV] = 0.2
    turkish = Autocorrect(vocabulary, words, language=LANGUAGES["tr"])
    actual = turkish.correct("sarlar", row)
    assert (actual.word, actual.is_sure) == ("şarlar", is_sure)
