"""The lookup against its rules in plain Python, and evaluation with it."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL, PAD, NormalisationRules
from tff_keyboard.evaluation.counts.predictor_evaluation import evaluate
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard_app.aosp.combined_file import WordList
from tff_keyboard_app.aosp.engine import AospPredictor, bigram_scores

RULES = NormalisationRules()
LIST = WordList(
    {"dictionary": "main:en"},
    {
        "the": 229,
        "to": 228,
        "I": 225,
        "they": 200,
        "tonight": 180,
        "tie": 180,
        "damn": 0,
        "home": 5,
    },
    {"I": {"tonight": 245, "they": 201, "damn": 250}, "to": {"the": 240}, "damn": {"the": 240}},
)
WORDS = st.text("ab", min_size=1, max_size=3)


def p_of(words, last, word):
    """Returns the engine's P of a word, and whether a bigram has it, from the file by the rules."""
    f = words.words[word]
    bigram = words.bigrams.get(last, {}).get(word)
    if bigram is None:
        return f, False
    step = (255 - f) / 16.5
    if step == 0:
        return 255, True
    number = int((max(bigram, f) - (1 + f + step / 2)) / step)  # makedict
    return f + int((max(number, 0) + 1) * step), True  # the keyboard


def strip(words, last, prefix, k=3):
    """Returns the words that the engine shows, best first; ties by length, then by id."""
    place = sorted(words.words, key=lambda w: (-words.words[w], len(w), w))
    actual = []
    for word, f in words.words.items():
        p, has_bigram = p_of(words, last, word)
        if f and word.startswith(prefix) and (prefix or has_bigram):
            cost = 1.1214 * (255 - p) / 255 + (0.00624 if prefix else 1e-5) * len(word)
            actual.append((round(cost, 5), len(word), place.index(word), word))
    return [word for *_, word in sorted(actual)[:k]]


@st.composite
def word_lists(draw):
    words = draw(st.dictionaries(WORDS, st.integers(0, 255), min_size=1, max_size=8))
    chosen = st.sampled_from(sorted(words))
    following = st.dictionaries(chosen, st.integers(0, 255), min_size=1, max_size=4)
    return WordList({"dictionary": "main:x"}, words, draw(st.dictionaries(chosen, following)))


@hypothesis.given(word_lists(), WORDS, st.sampled_from(["", "a", "b", "ab"]))
@examples(200)
def test_the_strip_is_that_of_the_rules(words, last, prefix):
    hypothesis.assume(any(words.words.values()))
    known = last if words.words.get(last) else None  # a word of f = 0 has no row, nor bigrams
    actual = AospPredictor(words, RULES).suggest([last], prefix)
    costs = [-p for _, p in actual]
    assert costs == sorted(costs)
    expected = strip(words, known, prefix)
    exact = {w: p_of(words, known, w)[0] - (1.42 if prefix else 0) * len(w) for w in words.words}
    assert [exact[w] for w, _ in actual] == pytest.approx([exact[w] for w in expected], abs=0.03)
    assert len(actual) == len(expected)


def test_a_strip_by_hand():
    engine = AospPredictor(LIST, RULES)
    behind = [word for word, _ in engine.suggest(["i"], "")]
    assert behind == ["tonight", "they"]  # bigrams alone, and nothing of f = 0
    assert engine.suggest([], "") == []
    assert engine.suggest(["they"], "") == []
    assert engine.suggest(["damn"], "") == []
    assert [word for word, _ in engine.suggest([], "t")] == ["to", "the", "they"]
    assert [word for word, _ in engine.suggest(["i"], "t")] == ["tonight", "to", "the"]
    assert [word for word, _ in engine.suggest([], "ti")] == ["tie"]
    assert [word for word, _ in engine.suggest([], "i")] == ["i"]  # the list has "I"
    with pytest.raises(ValueError, match="`k`"):
        engine.suggest([], "t", 0)


def test_words_that_a_vocabulary_cannot_hold_are_left_out():
    bigrams = {"to": {"new york": 240, "<url>": 240, "the": 230}, "new york": {"the": 240}}
    words = {"the": 229, "to": 228, "new york": 200, "<url>": 190}
    engine = AospPredictor(WordList({"dictionary": "main:en"}, words, bigrams), RULES)
    assert engine.vocabulary.words[NUM_SPECIAL:] == ("the", "to")
    assert [word for word, _ in engine.suggest(["to"], "")] == ["the"]


def test_bigrams_are_rounded_as_makedict_and_the_keyboard_do():
    f = np.repeat(np.arange(256), 256)
    bigram = np.tile(np.arange(256), 256)
    words = {"w": 0}
    expected = []
    for one, two in zip(f.tolist(), bigram.tolist(), strict=True):
        words["w"] = one
        expected.append(p_of(WordList({}, words, {"v": {"w": two}}), "v", "w")[0])
    np.testing.assert_array_equal(bigram_scores(f, bigram), expected)


def test_scores_are_a_distribution_in_the_order_of_the_strip():
    engine = AospPredictor(LIST, RULES)
    i, to = engine.vocabulary.encode(["i", "to"])
    ids = np.array([[BOS, i, to], [BOS, PAD, PAD]], np.int32)
    scores, before = engine.log_probabilities(ids), engine.next_word_log_probabilities(ids)
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, rtol=1e-5)
    assert scores.shape == before.shape == (4, len(engine.vocabulary))
    np.testing.assert_array_equal(scores[0], scores[3])
    words = engine.vocabulary.words
    best = [words[j] for j in np.argsort(-before[1]) if before[1, j] > -np.inf]
    assert best == [word for word, _ in engine.suggest(["i"], "")]
    with_t = [j for j in np.argsort(-scores[1]) if j >= NUM_SPECIAL and words[j].startswith("t")]
    assert [words[j] for j in with_t[:3]] == [word for word, _ in engine.suggest(["i"], "t")]


@hypothesis.given(word_lists(), st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1))
@examples(60)
def test_evaluation_types_as_a_person_with_the_strip_would(words, messages):
    hypothesis.assume(any(words.words.values()))
    engine = AospPredictor(words, RULES)
    typed = hits = 0
    for message in messages:
        for position, word in enumerate(message):
            shown = [
                j
                for j in range(len(word))
                if word in [w for w, _ in engine.suggest(message[:position], word[:j])]
            ]
            typed += min(shown, default=len(word))
            hits += 0 in shown
    sums = evaluate(engine, TypedText("", ("one",), (messages,))).sums
    assert sums["typed_free"].sum() == typed
    assert sums["hits_at_3"].sum() == hits
    assert np.isfinite(sums["nll"]).all()
    assert math.isclose(sums["tokens"].sum(), sum(len(message) + 1 for message in messages))
