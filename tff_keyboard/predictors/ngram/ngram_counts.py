"""Counts of all n-grams of a text, as a trie in sorted arrays.

Nodes of level n are the distinct n-grams, ordered by (node of their first n - 1 words, last word).
Level 1 has one node per id. Messages are read as BOS + words + EOS, and no n-gram crosses from one
message to the next.

Kneser-Ney smoothing uses *adjusted* counts: for the highest order, the number of occurrences of an
n-gram; for lower orders, the number of different words to its left (a word seen only after "San" is
a poor guess elsewhere). An n-gram that starts with BOS has no word to its left and keeps its own
count. Sources: Kneser and Ney 1995; the treatment of BOS as in Heafield et al. 2013
(https://aclanthology.org/P13-2121), section 3.2.
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS


@dataclasses.dataclass(frozen=True)
class Level:
    """The n-grams of one length."""

    # [nodes] int64, node of level n - 1 of the first n - 1 words; zeros on level 1
    parents: np.ndarray
    words: np.ndarray  # [nodes] int32, the last word
    # [nodes] int64, adjusted counts; 0 for n-grams that are only context (BOS, PAD)
    counts: np.ndarray


def count_ngrams(
    messages: Iterable[np.ndarray], *, vocabulary_size: int, order: int
) -> list[Level]:
    """Returns the adjusted counts of messages, levels 1 to `order`.

    Args:
      messages: Ids [words] in [0, V) each, without BOS and EOS.
      vocabulary_size: V.
      order: Length of the longest n-grams, >= 1.

    Raises:
      ValueError: If `order` is out of range, or there are no messages.
    """
    if order < 1:
        raise ValueError(f"`order` must be >= 1, got {order}.")
    sentences = [np.concatenate([[BOS], message, [EOS]]) for message in messages]
    if not sentences:
        raise ValueError("There are no messages to count n-grams in.")
    text = np.concatenate(sentences).astype(np.int64)
    lengths = np.array([len(sentence) for sentence in sentences])
    ends = np.repeat(np.cumsum(lengths), lengths)
    until_end = ends - np.arange(len(text))  # number of tokens from here to the end of the message

    # Level by level: the node that starts at each position, and one position of each node.
    nodes_at = text.copy()
    levels: list[Level] = []
    parents, words = np.zeros(vocabulary_size, np.int64), np.arange(vocabulary_size, dtype=np.int32)
    places = np.full(vocabulary_size, -1)
    places[text[::-1]] = np.arange(len(text))[::-1]
    counts = np.bincount(text, minlength=vocabulary_size)
    for length in range(1, order + 1):
        if length == order:
            levels.append(_predictable(Level(parents, words, counts), length))
            break
        starts = np.flatnonzero(until_end > length)
        keys = nodes_at[starts] * vocabulary_size + text[starts + length]
        next_keys, first, inverse, next_counts = np.unique(
            keys, return_index=True, return_inverse=True, return_counts=True
        )
        next_places = starts[first]
        # A longer n-gram x w_1 ... w_n contributes one left neighbour x of w_1 ... w_n.
        continuations = np.bincount(nodes_at[next_places + 1], minlength=len(counts))
        starts_message = (places >= 0) & (text[places] == BOS)
        adjusted = np.where(starts_message, counts, continuations)
        levels.append(_predictable(Level(parents, words, adjusted), length))
        parents = next_keys // vocabulary_size
        words = (next_keys % vocabulary_size).astype(np.int32)
        counts, places = next_counts, next_places
        nodes_at = np.full(len(text), -1)
        nodes_at[starts] = inverse
    return levels


def _predictable(level: Level, length: int) -> Level:
    """Sets the count of BOS on level 1 to 0, because BOS is read but never predicted."""
    if length > 1:
        return level
    counts = level.counts.copy()
    counts[BOS] = 0
    return dataclasses.replace(level, counts=counts)
