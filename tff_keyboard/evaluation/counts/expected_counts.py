"""How often a model expects people to type each word and pair of words, summed person by person.

    u_k(w)    = sum over the positions of k's text of p(w | h)
    b_k(v, w) = the same over the positions whose last word is v
    sums      = sum over k of (u_k, b_k) min(1, C / |(u_k, b_k)|)

So a person says what the model makes of their text, not what they typed, and moves the sums by at
most C in L2: they can be noised like any sum of clients. Pairs are those of `likely_pairs`, which
the model alone decides; no count chooses them.

The idea is Chen et al.'s (2019, "Federated learning of n-gram language models",
https://arxiv.org/abs/1910.03432), who make an n-gram of a federated network by sampling from it.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, PAD
from tff_keyboard.evaluation.counts.positions import text_batches
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.predictors.predictor import Predictor

PAIRS = 50  # words behind a word that are counted
_SCORES_AT_ONCE = 2**23


@dataclasses.dataclass(frozen=True)
class ExpectedCounts:
    """Sums over people."""

    following: np.ndarray  # [V, pairs] int64: w of each (v, w)
    unigrams: np.ndarray  # [V] float64
    bigrams: np.ndarray  # [V, pairs] float64
    people: int  # how many were summed
    typists: np.ndarray  # [V] int64, how many of them typed a word: exact, and never noised


def likely_pairs(predictor: Predictor, pairs: int = PAIRS) -> np.ndarray:
    """The words that a model finds likeliest behind each word alone: [V, pairs] int64, by id.

    Special ids are never among them; their own rows mean nothing.
    """
    size = len(predictor.vocabulary)
    pairs = min(pairs, size - NUM_SPECIAL)
    found = np.full([size, pairs], NUM_SPECIAL)
    at_once = max(1, _SCORES_AT_ONCE // size)
    for start in range(NUM_SPECIAL, size, at_once):
        ids = np.arange(start, min(start + at_once, size), dtype=np.int32)[:, np.newaxis]
        words = predictor.log_probabilities(ids)[:, NUM_SPECIAL:]
        best = np.argpartition(-words, pairs - 1, axis=1)[:, :pairs]
        found[ids[:, 0]] = np.sort(best, axis=1) + NUM_SPECIAL
    return found


def expected_counts(
    predictor: Predictor,
    people: Iterable[Sequence[list[str]]],
    following: np.ndarray,
    *,
    clip_norm: float = math.inf,
    summed: Callable[[int], None] = lambda people: None,
) -> ExpectedCounts:
    """The sums of the module's formula.

    `people` are the messages of each person, as words by the rules of the predictor's vocabulary;
    `following` is of `likely_pairs`; `clip_norm` is C > 0, infinite does not clip; `summed` hears
    of the number of people summed so far.
    """
    vocabulary = predictor.vocabulary
    unigrams = np.zeros(len(vocabulary))
    bigrams = np.zeros(following.shape)
    typists = np.zeros(len(vocabulary), np.int64)
    count = 0
    for count, messages in enumerate(people, start=1):
        own = np.zeros(len(vocabulary))
        before, behind = [np.empty(0, np.int32)], [np.empty([0, following.shape[1]])]
        for batch in text_batches(TypedText("", ("",), (list(messages),)), vocabulary):
            inputs = batch.inputs
            last = inputs[inputs != PAD]
            probabilities = np.exp(predictor.log_probabilities(inputs))
            own += probabilities.sum(axis=0, dtype=np.float64)
            known = last >= NUM_SPECIAL
            before.append(last[known])
            pairs = following[last[known]]
            behind.append(np.take_along_axis(probabilities[known], pairs, axis=1))
        words, place = np.unique(np.concatenate(before), return_inverse=True)
        pairs_of_words = np.zeros([len(words), following.shape[1]])
        np.add.at(pairs_of_words, place, np.concatenate(behind))
        norm = math.sqrt(np.sum(own**2) + np.sum(pairs_of_words**2))
        share = min(1.0, clip_norm / norm) if norm else 1.0
        unigrams += share * own
        bigrams[words] += share * pairs_of_words
        typists[words] += 1
        summed(count)
    return ExpectedCounts(following, unigrams, bigrams, count, typists)
