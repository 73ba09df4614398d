"""The interface of models for recall, keystrokes, comparisons and keyboards.

A Keras model, an n-gram and a TFLite file all answer two questions: which words are on the strip
now (`suggest`), and how probable is every word at every position of a batch (`log_probabilities`).
Plain NumPy: this module does not import TensorFlow.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from tff_keyboard.data.vocabulary import BOS, NUM_SPECIAL, Vocabulary
from tff_keyboard.predictors.prefix_index import PrefixIndex

if TYPE_CHECKING:
    from tff_keyboard.predictors.tail_lexicon import TailLexicon

_FEW = 16  # up to this many suggestions are found one after the other

# (word, probability), best first. The probability is over the whole vocabulary including special
# rows, and is not scaled up if a prefix restricts the choice.
Suggestion = tuple[str, float]


@runtime_checkable
class Predictor(Protocol):
    """A next-word model as a keyboard uses it."""

    vocabulary: Vocabulary

    def suggest(self, context: Sequence[str], prefix: str = "", k: int = 3) -> list[Suggestion]:
        """Returns the strip: the k most probable words that start with `prefix`.

        Args:
          context: Normalised words typed before in this message, oldest first; may be empty. Words
            that are not in the vocabulary are read as OOV.
          prefix: Normalised characters of the word being typed; "" before the first one. A word
            equal to the prefix starts with it.
          k: Number of suggestions, >= 1.

        Returns:
          Up to k `(word, probability)`, best first; ties go to the lower id. Special ids are never
          included. Fewer than k if fewer words start with `prefix`.

        Raises:
          ValueError: If `k` is out of range.
        """
        ...

    def log_probabilities(self, ids: np.ndarray) -> np.ndarray:
        """Returns the scores of the next id at every position that is not PAD.

        Args:
          ids: [batch, time] int32, rows BOS + words, padded with PAD on the right.

        Returns:
          [positions, V] float32, natural logarithms, including special ids, which are not masked.
          The positions are those of `ids != PAD` in row-major order. A model that cannot produce an
          id (PAD and BOS are never typed) may give it -inf.
        """
        ...


def next_word_scores(predictor: Predictor, ids: np.ndarray) -> np.ndarray | None:
    """Returns the scores before the first letter, if they differ from `log_probabilities`.

    Returns None if they do not differ. The lookup of an AOSP dictionary has another order before
    the first letter. Its `next_word_log_probabilities` has the arguments and results of
    `log_probabilities`, with -inf for a word that is not offered.
    """
    scores = getattr(predictor, "next_word_log_probabilities", None)
    return None if scores is None else scores(ids)


def tail_of(predictor: Predictor) -> "TailLexicon | None":
    """Returns the tail lexicon of a predictor, its attribute `tail`, or None if it has none."""
    return getattr(predictor, "tail", None)


def best_words(
    log_probabilities: np.ndarray, candidates: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the k best of some ids under [V] scores.

    Args:
      log_probabilities: [V] scores.
      candidates: [n] distinct ids without special ones.
      k: >= 1, or a `ValueError`.

    Returns:
      `(ids, scores)`, each [min(k, n)], best first; ties go to the lower id.
    """
    if k < 1:
        raise ValueError(f"`k` must be >= 1, got {k}.")
    scores = log_probabilities[candidates]
    if len(candidates) > 4 * k:
        # All that are at least as good as the k-th best: k, or more if there are ties.
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        is_candidate = scores >= threshold
        candidates, scores = candidates[is_candidate], scores[is_candidate]
    order = np.lexsort((candidates, -scores))[:k]
    return candidates[order], scores[order]


def best_with_prefix(
    scores: np.ndarray, index: PrefixIndex, prefix: str, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the k >= 1 best words that start with a prefix, like `best_words`, under [V] scores.

    Without a prefix all words compete. Finding the largest value k times then takes a tenth of the
    time of one partition.
    """
    if prefix or not 1 <= k <= _FEW:
        return best_words(scores, index.ids(prefix), k)
    words = scores[NUM_SPECIAL:].copy()
    positions = []
    for _ in range(min(k, len(words))):
        best = int(words.argmax())  # the first maximum, so ties go to the lower id
        if words[best] == -np.inf:
            return best_words(scores, index.ids(prefix), k)
        positions.append(best)
        words[best] = -np.inf
    ids = np.array(positions, np.int64) + NUM_SPECIAL
    return ids, scores[ids]


def suggestions(
    log_probabilities: np.ndarray, index: PrefixIndex, prefix: str, k: int
) -> list[Suggestion]:
    """Returns `Predictor.suggest` from the scores of one position, [V] log-probabilities."""
    ids, scores = best_with_prefix(log_probabilities, index, prefix, k)
    words = index.vocabulary.words
    return [(words[i], float(np.exp(s))) for i, s in zip(ids, scores, strict=True)]


def context_ids(vocabulary: Vocabulary, context: Sequence[str]) -> list[int]:
    """Returns BOS and the ids of the context's words, the input of a model."""
    return [BOS, *vocabulary.encode(context)]


def mask_special(log_probabilities: np.ndarray) -> np.ndarray:
    """Returns a copy of [..., V] scores with -inf for the special ids."""
    masked = log_probabilities.copy()
    masked[..., :NUM_SPECIAL] = -np.inf
    return masked
