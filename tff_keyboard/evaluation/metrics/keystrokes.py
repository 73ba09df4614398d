"""Keystroke savings: how many characters a typist need not type.

Before each character of a word the strip shows the k best vocabulary words that start with what is
typed so far; with nothing typed, the k best next words. The typist takes the intended word as soon
as it is on the strip and types on otherwise; words out of the vocabulary are typed in full.

    typed = characters typed until the word is offered (all of them if it never is)
    KSS   = (characters - typed) / characters

over all words, in characters that are not spaces: Unicode code points of the normalised words. Two
countings of the tap that accepts a suggestion:

  selection free       it costs nothing: the definition of Popov et al.
  selection counted    it is one keystroke, so an accepted word costs typed + 1; taking a suggestion
                       with one character to go then neither saves nor loses

Spaces (accepting a word types its space too) and masks of the collectors (`<#>`, `<URL>`) are left
out on both sides. A word equal to the typed prefix takes a place on the strip like any other.

Sources: Popov, Kudinov, Piontkovskaya, Vytovtov, Nevidomsky 2018, section 2.4,
https://arxiv.org/abs/1712.07473; MacKenzie and Soukoreff 2002, Human-Computer Interaction 17.
"""

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.evaluation.metrics.target_ranks import target_ranks
from tff_keyboard.predictors.prefix_index import PrefixIndex


def characters_typed(
    scores: np.ndarray,
    targets: np.ndarray,
    index: PrefixIndex,
    *,
    k: int = 3,
    word_ranks: np.ndarray | None = None,
) -> np.ndarray:
    """Characters typed of each target word until it is among the k suggestions.

    With the vocabulary sorted, the words that start with the first j characters of the target are
    one range inside that of j - 1, and the word is offered at the first j where fewer than k words
    of that range rank above it. Positions are grouped by the first character of their target; a
    running sum of "ranks above the target" over the group's range gives all lengths at once.

    `scores` [n, V] are log-probabilities or anything monotone in them, without NaN; `targets` [n]
    are word ids; `word_ranks` [n] are `target_ranks(scores, targets).words`, where known already.
    The result is [n] int32 in [0, length of the word]; the length where it is never offered. Raises
    `ValueError` if `k`, suggestions on the strip, is below 1, or a target is special.
    """
    if k < 1:
        raise ValueError(f"`k` must be >= 1, got {k}.")
    if np.any(targets < NUM_SPECIAL):
        raise ValueError("`targets` must be words; special ids are not typed.")
    if word_ranks is None:
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
        rows, place = open_rows[in_group], places[in_group]
        longest = int(lengths[rows].max())
        group_ids = index.sorted_ids[start : end[place[0], 1]]  # [group]
        group_scores = scores[rows[:, np.newaxis], group_ids]  # [rows, group]
        target = targets[rows, np.newaxis]
        own = scores[rows, targets[rows]][:, np.newaxis]
        above = (group_scores > own) | ((group_scores == own) & (group_ids < target))
        running = np.zeros([len(rows), len(group_ids) + 1], np.int32)
        np.cumsum(above, axis=1, out=running[:, 1:])
        columns = slice(1, longest + 1)
        ranks = np.take_along_axis(running, end[place, columns] - start, axis=1)
        ranks -= np.take_along_axis(running, first[place, columns] - start, axis=1)
        # Ranks fall with the prefix length, so the number of lengths 1..j that are still too short
        # is the last one that is.
        still_hidden = (ranks >= k) & (np.arange(1, longest + 1) < lengths[rows, np.newaxis])
        typed[rows] = 1 + np.count_nonzero(still_hidden, axis=1)
    return typed


def keystrokes_with_selection(typed: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Keystrokes where a tap on the strip is one: `typed + 1` if a suggestion was taken.

    >>> keystrokes_with_selection(np.array([0, 2, 5]), np.array([5, 5, 5]))
    array([1, 3, 5])
    """
    return np.where(typed < lengths, typed + 1, lengths)
