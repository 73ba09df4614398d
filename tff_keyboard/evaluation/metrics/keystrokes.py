"""Keystroke savings: the share of characters that a user need not type.

Before each character of a word the strip shows the k best vocabulary words that start with the
typed characters; if none is typed, the k best next words. The user taps the intended word as soon
as it is on the strip, and otherwise types on. Words that are not in the vocabulary are typed
completely.

    typed = characters typed until the word is offered (all of them if it never is)
    KSS   = (characters - typed) / characters

The sums are over all words, in characters that are not spaces: Unicode code points of the
normalised words. There are two ways to count the tap that accepts a suggestion:

  selection free       it costs nothing: the definition of Popov et al.
  selection counted    it is one keystroke, so an accepted word costs typed + 1; accepting a
                       suggestion with one remaining character neither saves nor loses

Spaces (accepting a word types its space too) and masks of the data collectors (`<#>`, `<URL>`) are
left out of both sums. A word equal to the typed prefix takes a position on the strip like any
other.

Sources: Popov, Kudinov, Piontkovskaya, Vytovtov, Nevidomsky 2018, section 2.4,
https://arxiv.org/abs/1712.07473; MacKenzie and Soukoreff 2002, Human-Computer Interaction 17.
"""

from collections.abc import Callable

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.evaluation.metrics.target_ranks import target_ranks
from tff_keyboard.predictors.prefix_index import PrefixIndex


def characters_typed(
    scores: np.ndarray | Callable[[np.ndarray, np.ndarray], np.ndarray],
    targets: np.ndarray,
    index: PrefixIndex,
    *,
    k: int = 3,
    word_ranks: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the number of characters typed of each target until it is among the k suggestions.

    In the sorted vocabulary, the words that start with the first j characters of the target are a
    range inside the range of j - 1. The word is offered at the first j for which fewer than k words
    of the range rank above it. Positions are grouped by the first character of their target. A
    running sum of "ranks above the target" over the group's range then gives the result for all
    lengths at once.

    Args:
      scores: [n, V] log-probabilities, or any monotone function of them, without NaN. For a large
        V, a function that returns the scores of words at positions: [rows], [words] ->
        [rows, words]. It requires `word_ranks`.
      targets: [n] word ids.
      index: Index of the vocabulary.
      k: Number of suggestions on the strip, >= 1.
      word_ranks: [n] `target_ranks(scores, targets).words`, if already known.

    Returns:
      [n] int32 in [0, length of the word]; the length if the word is never offered.

    Raises:
      ValueError: If `k` is out of range, a target is special, or `word_ranks` is missing.
    """
    if k < 1:
        raise ValueError(f"`k` must be >= 1, got {k}.")
    if np.any(targets < NUM_SPECIAL):
        raise ValueError("`targets` must be words; special ids are not typed.")
    if word_ranks is None:
        if callable(scores):
            raise ValueError("Pass `word_ranks` if `scores` is a function.")
        word_ranks = target_ranks(scores, targets).words
    lengths = index.word_lengths[targets]
    typed = np.where(word_ranks < k, 0, lengths).astype(np.int32)
    open_rows = np.flatnonzero((word_ranks >= k) & (lengths > 1))
    if not len(open_rows):
        return typed
    first, end = index.prefix_ranges
    places = index.rank_of_id[targets[open_rows]]
    starts = first[places, 1]
    for start in np.unique(starts):
        in_group = starts == start
        rows, range_rows = open_rows[in_group], places[in_group]
        longest = int(lengths[rows].max())
        group_ids = index.sorted_ids[start : end[range_rows[0], 1]]  # [group]
        if callable(scores):
            group_scores = scores(rows, group_ids)
        else:
            group_scores = scores[rows[:, np.newaxis], group_ids]  # [rows, group]
        target = targets[rows, np.newaxis]
        target_scores = group_scores[np.arange(len(rows)), range_rows - start][:, np.newaxis]
        above = (group_scores > target_scores) | (
            (group_scores == target_scores) & (group_ids < target)
        )
        running = np.zeros([len(rows), len(group_ids) + 1], np.int32)
        np.cumsum(above, axis=1, out=running[:, 1:])
        columns = slice(1, longest + 1)
        ranks = np.take_along_axis(running, end[range_rows, columns] - start, axis=1)
        ranks -= np.take_along_axis(running, first[range_rows, columns] - start, axis=1)
        # Ranks decrease with the prefix length, so the number of lengths 1..j that are too short is
        # the largest of them.
        still_hidden = (ranks >= k) & (np.arange(1, longest + 1) < lengths[rows, np.newaxis])
        typed[rows] = 1 + np.count_nonzero(still_hidden, axis=1)
    return typed


def keystrokes_with_selection(typed: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Returns keystrokes with a tap counted as one: `typed + 1` if a suggestion was accepted.

    >>> keystrokes_with_selection(np.array([0, 2, 5]), np.array([5, 5, 5]))
    array([1, 3, 5])
    """
    return np.where(typed < lengths, typed + 1, lengths)
