"""The one interface that recall, keystrokes, comparison and keyboards take a model through.

A Keras model, an n-gram and a TFLite file all answer two questions: what goes on the strip now
(`suggest`), and how likely is every word at every position of a batch (`log_probabilities`). Plain
NumPy: nothing here imports TensorFlow.
"""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL, Vocabulary
from tff_keyboard.predictors.prefix_index import PrefixIndex

_FEW = 16  # suggestions that are found one after the other

# (word, probability): the probability is over the whole vocabulary, special rows included, and is
# not scaled up when a prefix narrows the choice. Best first.
Suggestion = tuple[str, float]


@runtime_checkable
class Predictor(Protocol):
    """A next-word model behind a keyboard."""

    vocabulary: Vocabulary

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """The strip: the k most probable words that start with `prefix`.

        Args:
          context: Normalised words typed before in this message, oldest first; may be empty. Words
            out of the vocabulary are read as OOV.
          prefix: Normalised characters of the word being typed; "" before the first one. A word
            equal to the prefix counts as one that starts with it.
          k: Suggestions wanted; >= 1.

        Returns:
          Up to k `(word, probability)`, best first; ties go to the lower id. Special ids are never
          among them. Fewer than k where fewer words start with `prefix`.

        Raises:
          ValueError: `k` is out of range.
        """
        ...

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """Scores of the next id at every position that is not PAD.

        Args:
          ids: [batch, time] int32, rows BOS + words, padded with PAD on the right.

        Returns:
          [positions, V] float32, natural logarithms, special ids included and not masked; the
          positions are those of `ids != PAD` in row-major order. A model that cannot produce an id
          (PAD and BOS are never typed) may give it -inf.
        """
        ...


def next_word_scores(predictor: Predictor, ids: np.ndarray) -> np.ndarray | None:
    """Scores of a strip before its first letter; None where `log_probabilities` says all.

    A dictionary's lookup (`predictors/aosp/engine.py`) has another order before the first letter.
    Its `next_word_log_probabilities` takes and returns what `log_probabilities` does, and gives
    -inf to a word that is not offered.
    """
    scores = getattr(predictor, "next_word_log_probabilities", None)
    return None if scores is None else scores(ids)


def best_words(
    log_probabilities: np.ndarray, candidates: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k >= 1 best of some ids, [n] without special ones, each once, under [V] scores.

    `(ids, scores)`, each [min(k, n)], best first, ties to the lower id; else a `ValueError`.
    """
    if k < 1:
        raise ValueError(f"`k` must be >= 1, got {k}.")
    scores = log_probabilities[candidates]
    if len(candidates) > 4 * k:
        # All that are at least as good as the k-th best: at least k, more only with ties.
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = scores >= threshold
        candidates, scores = candidates[kept], scores[kept]
    order = np.lexsort((candidates, -scores))[:k]
    return candidates[order], scores[order]


def best_with_prefix(
    scores: np.ndarray, index: PrefixIndex, prefix: str, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The k >= 1 best words that start with a prefix: `best_words` of them, under [V] scores.

    Without a prefix all words compete, and k passes for the largest value take a tenth of the time
    of one partition.
    """
    if prefix or not 1 <= k <= _FEW:
        return best_words(scores, index.ids(prefix), k)
    words = scores[NUM_SPECIAL:].copy()
    found = []
    for _ in range(min(k, len(words))):
        best = int(words.argmax())  # the first of equals, so ties go to the lower id
        if words[best] == -np.inf:
            return best_words(scores, index.ids(prefix), k)
        found.append(best)
        words[best] = -np.inf
    ids = np.array(found, np.int64) + NUM_SPECIAL
    return ids, scores[ids]


def suggestions(
    log_probabilities: np.ndarray, index: PrefixIndex, prefix: str, k: int
) -> list[Suggestion]:
    """`Predictor.suggest` from the scores of one position: [V] log-probabilities."""
    ids, scores = best_with_prefix(log_probabilities, index, prefix, k)
    words = index.vocabulary.words
    return [(words[i], float(np.exp(s))) for i, s in zip(ids, scores, strict=True)]


def context_ids(vocabulary: Vocabulary, context: Sequence[str]) -> list[int]:
    """BOS and the ids of the context's words: what a model reads before it predicts."""
    return [BOS, *vocabulary.encode(context)]


def mask_special(log_probabilities: np.ndarray) -> np.ndarray:
    """A copy of [..., V] in which the special ids can never win: -inf."""
    masked = log_probabilities.copy()
    masked[..., :NUM_SPECIAL] = -np.inf
    return masked
