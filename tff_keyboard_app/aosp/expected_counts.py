"""The number of times a model expects clients to type each word and word pair, summed over clients.

    u_k(w)    = sum over the positions of k's text of p(w | h)
    b_k(v, w) = the same over the positions whose last word is v
    sums      = sum over k of (u_k, b_k)

A client contributes the model's predictions on its text, not the words that it typed. The pairs are
those of `likely_pairs`, which depend only on the model, not on any counts.

The idea is from Chen et al. (2019, "Federated learning of n-gram language models",
https://arxiv.org/abs/1910.03432), who convert a federated network to an n-gram by sampling from it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, PAD
from tff_keyboard.evaluation.counts.positions import text_batches
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.predictor import Predictor

PAIRS = 50  # number of next words that are counted for each word
_SCORES_AT_ONCE = 2**23


@dataclasses.dataclass(frozen=True)
class ExpectedCounts:
    """Sums over clients."""

    following: np.ndarray  # [V, pairs] int64: w of each (v, w)
    unigrams: np.ndarray  # [V] float64
    bigrams: np.ndarray  # [V, pairs] float64
    people: int  # number of clients
    typists: np.ndarray  # [V] int64, number of clients that typed each word


def likely_pairs(predictor: Predictor, pairs: int = PAIRS) -> np.ndarray:
    """Returns the most probable words after each single word, [V, pairs] int64, sorted by id.

    Special ids are never included, and the rows of special ids have no meaning.
    """
    size = len(predictor.vocabulary)
    pairs = min(pairs, size - NUM_SPECIAL)
    likely = np.full([size, pairs], NUM_SPECIAL)
    at_once = max(1, _SCORES_AT_ONCE // size)
    for start in range(NUM_SPECIAL, size, at_once):
        ids = np.arange(start, min(start + at_once, size), dtype=np.int32)[:, np.newaxis]
        words = predictor.log_probabilities(ids)[:, NUM_SPECIAL:]
        best = np.argpartition(-words, pairs - 1, axis=1)[:, :pairs]
        likely[ids[:, 0]] = np.sort(best, axis=1) + NUM_SPECIAL
    return likely


def expected_counts(
    predictor: Predictor,
    people: Iterable[Sequence[list[str]]],
    following: np.ndarray,
    *,
    summed: Callable[[int], None] = lambda people: None,
) -> ExpectedCounts:
    """Computes the sums of the module's formula.

    Args:
      predictor: The model.
      people: The messages of each client, as words by the rules of the predictor's vocabulary.
      following: Result of `likely_pairs`.
      summed: Called with the number of clients summed so far.
    """
    vocabulary = predictor.vocabulary
    unigrams = np.zeros(len(vocabulary))
    bigrams = np.zeros(following.shape)
    typists = np.zeros(len(vocabulary), np.int64)
    count = 0
    for count, messages in enumerate(people, start=1):
        client_unigrams = np.zeros(len(vocabulary))
        words_before, pair_probabilities = (
            [np.empty(0, np.int32)],
            [np.empty([0, following.shape[1]])],
        )
        for batch in text_batches(TypedText("", ("",), (list(messages),)), vocabulary):
            inputs = batch.inputs
            input_words = inputs[inputs != PAD]
            probabilities = np.exp(predictor.log_probabilities(inputs))
            client_unigrams += probabilities.sum(axis=0, dtype=np.float64)
            is_word = input_words >= NUM_SPECIAL
            words_before.append(input_words[is_word])
            pairs = following[input_words[is_word]]
            pair_probabilities.append(np.take_along_axis(probabilities[is_word], pairs, axis=1))
        words, row = np.unique(np.concatenate(words_before), return_inverse=True)
        pairs_of_words = np.zeros([len(words), following.shape[1]])
        np.add.at(pairs_of_words, row, np.concatenate(pair_probabilities))
        unigrams += client_unigrams
        bigrams[words] += pairs_of_words
        typists[words] += 1
        summed(count)
    return ExpectedCounts(following, unigrams, bigrams, count, typists)
