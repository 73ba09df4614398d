"""An attack on counts: a reader with the model guesses a word of one-word messages from their sums.

The reader is Bayesian, knows how often each word is typed and how the user types, and ignores
latencies. The rate is exact: with v(w) the counts of a message of the word w, it is the sum over
all possible sums s of max_w P(w) P(the other messages have the sum s - v(w)).
"""

import collections

import numpy as np
import pytest

from tests.support.ngram_fakes import messages_of, vocabulary_of
from tff_keyboard.data.vocabulary import OOV
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard_app.events import event_counts, replay
from tff_keyboard_app.events.event_log import MIN_MESSAGES


def guess_rate(vectors, probabilities, num_messages):
    """Returns the probability that the reader guesses the word of a given message."""
    vectors = vectors - vectors.min(axis=0)  # the number of messages is known
    bases = np.cumprod([1, *(vectors.max(axis=0) * num_messages + 1)])[:-1]
    codes = (vectors @ bases).tolist()  # sums of vectors have different codes if they differ
    sums = collections.Counter({0: 1.0})
    for _ in range(num_messages - 1):
        others, sums = sums, collections.Counter()
        for total, weight in others.items():
            for code, probability in zip(codes, probabilities, strict=True):
                sums[total + code] += weight * probability
    best = collections.Counter()
    for total, weight in sums.items():
        for code, probability in zip(codes, probabilities, strict=True):
            best[total + code] = max(best[total + code], weight * probability)
    return sum(best.values())


@pytest.fixture(scope="module")
def one_word_messages():
    """Counts of the message of each word, without latencies, and probabilities of the words."""
    vocabulary = vocabulary_of(20)
    messages = messages_of(1, 40, size=20, longest=5)
    predictor = NGramPredictor.train(messages, vocabulary, order=2)
    words = vocabulary.words[OOV + 1 :]
    counts = np.array([replay.replay(predictor, [[word]]) for word in words])
    typed = np.concatenate(messages)
    uses = np.bincount(typed[typed > OOV], minlength=len(vocabulary.words))[OOV + 1 :]
    probabilities = uses / uses.sum()
    return counts[:, : event_counts.COUNTS.index("latency_to_1_ms")], probabilities


def test_guess_rate_by_hand():
    vectors, probabilities = np.array([[1, 0], [0, 1]]), np.array([0.75, 0.25])
    assert guess_rate(vectors, probabilities, 1) == 1
    # Two of the first word, two of the second, or one of each, of which either may be this one.
    assert guess_rate(vectors, probabilities, 2) == 0.75**2 + 0.25**2 + 0.75 * 0.25


def test_one_message_would_give_its_word_away(one_word_messages):
    counts, probabilities = one_word_messages
    assert guess_rate(counts, probabilities, 1) > 2 * probabilities.max()


def test_a_batch_adds_little_to_the_most_frequent_word(one_word_messages):
    counts, probabilities = one_word_messages
    assert guess_rate(counts, probabilities, MIN_MESSAGES) < 1.5 * probabilities.max()
