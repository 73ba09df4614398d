"""Keystroke savings against a simulated user, key by key."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.vocabulary import NUM_SPECIAL, SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.evaluation.metrics.keystrokes import characters_typed, keystrokes_with_selection
from tff_keyboard.evaluation.metrics.target_ranks import target_ranks
from tff_keyboard.predictors.predictor import best_with_prefix, best_words, suggestions
from tff_keyboard.predictors.prefix_index import PrefixIndex


def vocabulary_of(words):
    return Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules())


def random_vocabulary(rng, size, letters="abc", longest=6):
    words = set()
    while len(words) < size:
        words.add("".join(rng.choice(list(letters), rng.integers(1, longest + 1))))
    return vocabulary_of(rng.permutation(sorted(words)).tolist())


def typist(scores, target, words, k):
    """Looks at the strip before each key, and returns the characters typed of `words[target]`."""
    word = words[target]
    for typed in range(len(word)):
        ids = [i for i in range(NUM_SPECIAL, len(words)) if words[i].startswith(word[:typed])]
        strip = sorted(ids, key=lambda i: (-scores[i], i))[:k]
        if target in strip:
            return typed
    return len(word)


# Small alphabets make many shared prefixes, and few distinct scores make many ties.
word_lists = st.lists(
    st.text(alphabet="abé😀", min_size=1, max_size=6), min_size=1, max_size=25, unique=True
)


@examples(80)
@given(data=st.data(), words=word_lists, k=st.integers(1, 4))
def test_matches_a_typist(data, words, k):
    vocabulary = vocabulary_of(words)
    row = st.lists(
        st.sampled_from([-math.inf, -3.0, -2.0, -1.0, 0.0]),
        min_size=len(vocabulary),
        max_size=len(vocabulary),
    )
    targets = np.array(
        data.draw(st.lists(st.integers(NUM_SPECIAL, len(vocabulary) - 1), min_size=1, max_size=8))
    )
    scores = np.array([data.draw(row) for _ in targets], np.float32)
    typed = characters_typed(scores, targets, PrefixIndex(vocabulary), k=k)
    expected = [
        typist(row, target, vocabulary.words, k)
        for row, target in zip(scores, targets, strict=True)
    ]
    np.testing.assert_array_equal(typed, expected)


def test_matches_a_typist_on_a_larger_vocabulary():
    rng = np.random.default_rng(0)
    vocabulary = random_vocabulary(rng, 400)
    scores = rng.normal(size=[60, len(vocabulary)]).astype(np.float32)
    targets = rng.integers(NUM_SPECIAL, len(vocabulary), size=60)
    typed = characters_typed(scores, targets, PrefixIndex(vocabulary))
    expected = [typist(scores[i], targets[i], vocabulary.words, 3) for i in range(60)]
    np.testing.assert_array_equal(typed, expected)
    assert len(set(typed)) > 3  # cases of many lengths were met


def savings(scores, targets, vocabulary, k=3):
    lengths = np.array([len(vocabulary.words[i]) for i in targets])
    typed = characters_typed(scores, targets, PrefixIndex(vocabulary), k=k)
    counted = keystrokes_with_selection(typed, lengths)
    assert np.all((typed >= 0) & (typed <= lengths))
    assert np.all((counted >= np.minimum(1, lengths)) & (counted <= lengths))
    assert np.all(counted >= typed)
    return 1 - typed.sum() / lengths.sum(), 1 - counted.sum() / lengths.sum()


@examples(50)
@given(seed=st.integers(0, 2**32 - 1), words=word_lists)
def test_bounded_best_for_an_oracle_and_monotone_in_k(seed, words):
    rng = np.random.default_rng(seed)
    vocabulary = vocabulary_of(words)
    targets = rng.integers(NUM_SPECIAL, len(vocabulary), size=12)
    scores = rng.normal(size=[12, len(vocabulary)])
    by_k = [savings(scores, targets, vocabulary, k)[0] for k in (1, 2, 3, 5, len(vocabulary))]
    assert by_k == sorted(by_k)
    assert by_k[0] >= 0
    assert by_k[-1] == 1  # a strip of all words needs no key

    oracle = scores.copy()
    oracle[np.arange(12), targets] = scores.max() + 1
    free, counted = savings(oracle, targets, vocabulary, k=1)
    lengths = np.array([len(vocabulary.words[i]) for i in targets])
    assert free == 1
    assert counted == pytest.approx(1 - 12 / lengths.sum())  # one tap a word and nothing else


def test_a_uniform_model_saves_what_prefixes_alone_save():
    vocabulary = vocabulary_of(["the", "then", "them", "they", "there", "a", "apple", "zoo"])
    targets = np.arange(NUM_SPECIAL, len(vocabulary))
    typed = characters_typed(np.zeros([8, 12]), targets, PrefixIndex(vocabulary))
    # Equal scores rank by id, so the strip is the first three words in the table that fit the
    # prefix: "there" and "they" wait for their last letters, "a" and "apple" for their first.
    by_word = dict(zip(vocabulary.words[NUM_SPECIAL:], typed.tolist(), strict=True))
    assert by_word == {
        "the": 0,
        "then": 0,
        "them": 0,
        "they": 4,
        "there": 4,
        "a": 1,
        "apple": 1,
        "zoo": 1,
    }


def test_special_ids_take_no_place_on_the_strip():
    vocabulary = vocabulary_of(["yes", "no"])
    scores = np.array([[9.0, 9.0, 9.0, 9.0, 1.0, 0.0]])
    typed = characters_typed(scores, np.array([4]), PrefixIndex(vocabulary), k=1)
    assert typed.tolist() == [0]


def test_rejects_what_cannot_be_typed():
    index = PrefixIndex(vocabulary_of(["yes"]))
    with pytest.raises(ValueError, match="`k` must be >= 1"):
        characters_typed(np.zeros([1, 5]), np.array([4]), index, k=0)
    with pytest.raises(ValueError, match="special ids are not typed"):
        characters_typed(np.zeros([1, 5]), np.array([3]), index)


def test_nothing_to_type():
    index = PrefixIndex(vocabulary_of(["yes"]))
    assert characters_typed(np.zeros([0, 5]), np.zeros([0], int), index).tolist() == []


@examples(60)
@given(data=st.data(), size=st.integers(5, 12))
def test_ranks_match_sorting(data, size):
    value = st.sampled_from([-math.inf, -1.0, 0.0, 1.0])
    scores = np.array([data.draw(st.lists(value, min_size=size, max_size=size))])
    target = data.draw(st.integers(0, size - 1))
    ranks = target_ranks(scores, np.array([target]))

    def place(masked):
        ids = [i for i in range(size) if i not in masked]
        return sorted(ids, key=lambda i: (-scores[0, i], i)).index(target)

    assert ranks.all_ids[0] == place(())
    if target >= NUM_SPECIAL:
        assert ranks.words[0] == place((0, 1, 2, 3))
    if target >= NUM_SPECIAL or target == 2:
        assert ranks.words_or_eos[0] == place((0, 1, 3))


@examples(50)
@given(words=word_lists, prefix=st.text(alphabet="abé😀", max_size=4))
def test_ranges_match_a_scan(words, prefix):
    vocabulary = vocabulary_of(words)
    index = PrefixIndex(vocabulary)
    expected = [
        i for i in range(NUM_SPECIAL, len(vocabulary)) if vocabulary.words[i].startswith(prefix)
    ]
    assert sorted(index.ids(prefix).tolist()) == expected
    first, end = index.prefix_ranges
    for row, word_id in enumerate(index.sorted_ids):
        word = vocabulary.words[word_id]
        for length in range(len(word) + 1):
            assert (first[row, length], end[row, length]) == index.range(word[:length])


@examples(50)
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(1, 40), k=st.integers(1, 8))
def test_best_words_are_the_first_of_a_sort(seed, size, k):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 4, size=50).astype(np.float32)  # many ties
    candidates = rng.permutation(50)[:size]
    ids, actual = best_words(scores, candidates, k)
    expected = sorted(candidates.tolist(), key=lambda i: (-scores[i], i))[:k]
    assert ids.tolist() == expected
    np.testing.assert_array_equal(actual, scores[expected])


@examples(50)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 20))
def test_the_best_of_all_are_the_best_words(seed, k):
    rng = np.random.default_rng(seed)
    index = PrefixIndex(vocabulary_of([f"{i}" for i in rng.permutation(40)]))
    scores = rng.choice([-np.inf, 0.5, 1.0, 2.0, 3.0], size=44)  # many ties
    for prefix in ("", "1"):
        ids, actual = best_with_prefix(scores, index, prefix, k)
        expected = best_words(scores, index.ids(prefix), k)
        np.testing.assert_array_equal(ids, expected[0])
        np.testing.assert_array_equal(actual, expected[1])


def test_suggestions_hold_probabilities_and_no_special_word():
    vocabulary = vocabulary_of(["hi", "hello", "bye"])
    log_probabilities = np.log(np.array([0.0, 0.0, 0.4, 0.2, 0.1, 0.2, 0.1]) + 1e-30)
    index = PrefixIndex(vocabulary)
    assert [word for word, _ in suggestions(log_probabilities, index, "", 5)] == [
        "hello",
        "hi",
        "bye",
    ]
    strip = suggestions(log_probabilities, index, "h", 1)
    assert strip == [("hello", pytest.approx(0.2))]
    assert suggestions(log_probabilities, index, "x", 3) == []
    with pytest.raises(ValueError, match="`k` must be >= 1"):
        suggestions(log_probabilities, index, "", 0)


def test_scores_may_be_a_function():
    rng = np.random.default_rng(5)
    words = (*SPECIAL_WORDS, *sorted({"".join(rng.choice(list("ab"), 4)) for _ in range(30)}))
    index = PrefixIndex(Vocabulary(words, NormalisationRules()))
    scores = rng.integers(0, 5, [40, len(words)]).astype(np.float32)  # with ties
    targets = rng.integers(4, len(words), 40)
    ranks = target_ranks(scores, targets).words
    actual = characters_typed(
        lambda rows, ids: scores[rows[:, np.newaxis], ids], targets, index, word_ranks=ranks
    )
    np.testing.assert_array_equal(actual, characters_typed(scores, targets, index))
    with pytest.raises(ValueError, match="word_ranks"):
        characters_typed(lambda rows, ids: scores, targets, index)
