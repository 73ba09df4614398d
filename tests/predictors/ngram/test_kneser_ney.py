"""The n-gram against a short dictionary-based Kneser-Ney, and against KenLM's numbers."""

import collections
import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.data.vocabulary import (
    BOS,
    EOS,
    OOV,
    PAD,
    SPECIAL_WORDS,
    NormalisationRules,
    Vocabulary,
)
from tff_keyboard.predictors.ngram.kneser_ney import FALLBACK_DISCOUNTS, KneserNey, discounts
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor


class DictionaryKneserNey:
    """Interpolated modified Kneser-Ney as in the formulas, with tuples and dictionaries."""

    def __init__(self, messages, vocabulary_size, order):
        self.order = order
        self.events = [i for i in range(vocabulary_size) if i not in (PAD, BOS)]
        sentences = [(BOS, *map(int, message), EOS) for message in messages]
        raw = [collections.Counter() for _ in range(order + 1)]
        for sentence in sentences:
            for n in range(1, order + 1):
                for i in range(len(sentence) - n + 1):
                    raw[n][sentence[i : i + n]] += 1
        self.counts = [collections.Counter() for _ in range(order + 1)]
        for n in range(1, order + 1):
            for gram, count in raw[n].items():
                if n < order and gram[0] != BOS:
                    count = sum(longer[1:] == gram for longer in raw[n + 1])
                if gram != (BOS,):
                    self.counts[n][gram] = count
        self.discounts = [self._discounts(counter) for counter in self.counts]

    @staticmethod
    def _discounts(counter):
        n = [sum(count == j for count in counter.values()) for j in range(5)]
        if all(n[1:]):
            y = n[1] / (n[1] + 2 * n[2])
            actual = [j - (j + 1) * y * n[j + 1] / n[j] for j in (1, 2, 3)]
            if all(0 < d < j for j, d in enumerate(actual, start=1)):
                return (0, *actual)
        return (0, 0.5, 1.0, 1.5)

    def probability(self, word, context):
        context = tuple(context)[-(self.order - 1) :] if self.order > 1 else ()
        return self._interpolated(word, context)

    @functools.cache  # noqa: B019 - lives as long as one test
    def _interpolated(self, word, context):
        n = len(context) + 1
        shorter = self._interpolated(word, context[1:]) if context else 1 / len(self.events)
        seen = [c for gram, c in self.counts[n].items() if gram[:-1] == context]
        if not seen:
            return shorter
        discount = self.discounts[n]
        count = self.counts[n][(*context, word)]
        freed = sum(discount[min(c, 3)] for c in seen)
        return (count - discount[min(count, 3)] + freed * shorter) / sum(seen)


def messages_of(rng, vocabulary_size, num_messages, longest):
    """Returns skewed random messages: repeated n-grams of every order, and empty messages."""
    weights = 1 / np.arange(1, vocabulary_size - OOV + 1)
    return [
        rng.choice(
            np.arange(OOV, vocabulary_size),
            size=rng.integers(0, longest + 1),
            p=weights / weights.sum(),
        )
        for _ in range(num_messages)
    ]


def distribution(model, context):
    nodes = model.context_nodes(np.array([[BOS, *context]]))
    return model.probabilities(nodes[0, -1:])[0]


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_matches_the_formulas(order):
    rng = np.random.default_rng(order)
    messages = messages_of(rng, 16, 60, 9)
    model = KneserNey.train(messages, vocabulary_size=16, order=order)
    reference = DictionaryKneserNey(messages, 16, order)
    if order > 1:  # so that the discounts of Chen and Goodman are tested
        assert reference.discounts[2] != (0, *FALLBACK_DISCOUNTS)
    contexts = [(), (4,), (4, 5), (5, 4, 4), (11, 11, 11), (4, 5, 6, 7, 8), (3, 3), *messages[:20]]
    for context in contexts:
        actual = distribution(model, context)
        expected = [reference.probability(word, (BOS, *map(int, context))) for word in range(16)]
        expected[PAD] = expected[BOS] = 0
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-9)


def kenlm_corpus():
    """Returns 400 messages of a linear congruential generator."""
    state, messages = 1, []

    def uniform():
        nonlocal state
        state = (1103515245 * state + 12345) % 2**31
        return (state >> 8) / 2**23

    for _ in range(400):
        words = [4 + int(600 * uniform() ** 5)]
        while uniform() > 0.15:
            words.append(4 + int((7 * (words[-1] - 4) + 600 * uniform() ** 8) % 600))
        messages.append(words)
    numbers = sorted({word for message in messages for word in message})
    ids = {word: i for i, word in enumerate(numbers, start=4)}
    return [np.array([ids[word] for word in message]) for message in messages], ids


# log10 p of each word and of the end, after all previous words.
KENLM_QUERIES = ([4, 4, 11], [30, 43, 4, 5, 33], [7, 25, 20], [4, 11, 20, 4, 32, 4])
KENLM_LOG10 = {
    2: (
        [-0.5769521, -0.39898637, -2.6780195, -1.1338325],
        [-2.9750664, -3.036762, -3.1966484, -1.669252, -3.158993, -0.84433895],
        [-1.692697, -0.43502727, -3.1012769, -0.98549914],
        [-0.5769521, -2.6780195, -3.257937, -3.0563347, -3.3076649, -3.1622422, -0.7656336],
    ),
    3: (
        [-0.5789447, -0.43041646, -2.6753182, -0.9979843],
        [-2.9648511, -3.0630531, -3.0742164, -2.0001788, -2.945882, -0.8449289],
        [-1.7186301, -0.49692962, -3.072455, -0.9819326],
        [-0.5789447, -2.557646, -3.1166291, -3.0527682, -2.902083, -3.0621703, -0.9615416],
    ),
    5: (
        [-0.5789447, -0.4298396, -2.574194, -0.99664646],
        [-2.9648511, -3.0617151, -3.0742164, -2.0001788, -2.944544, -0.8449289],
        [-1.7186301, -0.493695, -3.081135, -0.9819326],
        [-0.5789447, -2.5507147, -3.125309, -3.0527682, -2.902083, -3.0621703, -0.9615416],
    ),
}


@pytest.mark.parametrize("order", KENLM_LOG10)
def test_matches_kenlm(order):
    """Constants from KenLM (github.com/kpu/kenlm, commit 4cb443e).

    The messages of `kenlm_corpus` were written as lines of words `w<number>`, then

        lmplz -o ORDER --discount_fallback --text corpus.txt --arpa ORDER.arpa
        query ORDER.arpa < queries.txt

    KenLM's `<unk>` is our OOV, which does not occur in this corpus. It used the fallback 0.5, 1,
    1.5 only for the highest of 5 orders, for which D_3 was negative.
    """
    messages, ids = kenlm_corpus()
    model = KneserNey.train(messages, vocabulary_size=4 + len(ids), order=order)
    for query, expected in zip(KENLM_QUERIES, KENLM_LOG10[order], strict=True):
        words = [ids[word] for word in query]
        probabilities = model.probabilities(model.context_nodes(np.array([[BOS, *words]]))[0])
        actual = np.log10(probabilities[np.arange(len(words) + 1), [*words, EOS]])
        np.testing.assert_allclose(actual, expected, atol=2e-6)


def test_batch_matches_its_rows():
    rng = np.random.default_rng(0)
    messages = messages_of(rng, 20, 200, 8)
    predictor = NGramPredictor.train(messages, vocabulary_of(20))
    rows = [np.array([BOS, *m]) for m in messages[:8]]
    ids = np.zeros([8, 9], np.int32)
    for row, sequence in zip(ids, rows, strict=True):
        row[: len(sequence)] = sequence
    together = predictor.log_probabilities(ids)
    alone = np.concatenate([predictor.log_probabilities(row[np.newaxis]) for row in rows])
    np.testing.assert_array_equal(together, alone)
    assert together.shape == (sum(map(len, rows)), 20)


@examples(60)
@given(data=st.data(), order=st.integers(1, 6))
def test_sums_to_one_after_any_context(data, order):
    word = st.integers(OOV, 9)
    messages = data.draw(st.lists(st.lists(word, max_size=7), min_size=1, max_size=12))
    model = KneserNey.train([np.array(m, int) for m in messages], vocabulary_size=10, order=order)
    context = data.draw(st.lists(word, max_size=8))
    probabilities = distribution(model, context)
    np.testing.assert_allclose(probabilities.sum(dtype=np.float64), 1, rtol=1e-5)
    assert np.all(probabilities[[PAD, BOS]] == 0)
    assert np.all(probabilities[EOS:] > 0)


def test_unigram_ranks_by_frequency():
    messages = [np.array([5, 5, 4, 6, 5, 4])]
    probabilities = distribution(KneserNey.train(messages, vocabulary_size=8, order=1), [4, 5])
    assert list(np.argsort(-probabilities, kind="stable")[:3]) == [5, 4, 2]  # 3, 2 and 1 times


def test_only_empty_messages():
    model = KneserNey.train([np.array([], int)], vocabulary_size=6, order=5)
    assert distribution(model, []).argmax() == EOS
    np.testing.assert_allclose(distribution(model, [4, 5, 4, 5, 4]).sum(), 1, rtol=1e-6)


def test_small_texts_use_the_fallback_discounts():
    np.testing.assert_array_equal(discounts(np.array([1, 1, 7])), [0, *FALLBACK_DISCOUNTS])
    # n = 1, 1, 5, 1: Y = 1/3 and D_2 = 2 - 5 < 0.
    np.testing.assert_array_equal(
        discounts(np.array([1, 2, 3, 3, 3, 3, 3, 4])), [0, *FALLBACK_DISCOUNTS]
    )


def test_rejects_what_it_cannot_train():
    with pytest.raises(ValueError, match="`order` must be >= 1"):
        KneserNey.train([np.array([4])], vocabulary_size=6, order=0)
    with pytest.raises(ValueError, match="no messages"):
        KneserNey.train([], vocabulary_size=6)
    with pytest.raises(ValueError, match="`vocabulary_size`"):
        KneserNey.train([np.array([4])], vocabulary_size=4)


def vocabulary_of(size):
    words = [f"w{i:03}" for i in range(size - len(SPECIAL_WORDS))]
    return Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules())


def trained():
    messages = messages_of(np.random.default_rng(3), 20, 100, 8)
    return NGramPredictor.train(messages, vocabulary_of(20))


def test_suggestions_match_the_scores():
    predictor = trained()
    scores = predictor.log_probabilities(np.array([[BOS, 4, 5, 6]]))[-1]
    words = [predictor.vocabulary.words[i] for i in (4, 5, 6)]
    best = sorted(range(4, 20), key=lambda i: (-scores[i], i))[:3]
    strip = predictor.suggest(words, k=3)
    assert [word for word, _ in strip] == [predictor.vocabulary.words[i] for i in best]
    np.testing.assert_allclose([p for _, p in strip], np.exp(scores[best]), rtol=1e-6)
    assert [word for word, _ in predictor.suggest(words, "w01", k=20)] == [
        predictor.vocabulary.words[i] for i in sorted(range(14, 20), key=lambda i: (-scores[i], i))
    ]
