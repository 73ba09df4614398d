"""Prediction impression recall: how often a strip that was shown contained the next word.

Hard et al. 2018 (section 6, https://arxiv.org/abs/1811.03604) divide the number of predictions that
match the user's input by the number of times that prediction candidates were shown. An impression
is a strip of next words before any character of the word is typed. A message of n words therefore
has n + 1 impressions: one before each word and one after the last, which nothing matches. The first
one of a message is the zero state (an opened keyboard). A keyboard that is opened without typing
leaves no trace in the text.

    prediction_impression_recall = impression_matches / impressions
    zero_state_recall            = zero_state_matches / zero_state_impressions
    mrr_at_3                     = reciprocal_ranks / words typed

A reciprocal rank is 1 / position on the strip, and 0 for a word that is not on it.
"""

import numpy as np


def reciprocal_ranks(ranks: np.ndarray, is_word: np.ndarray, k: int) -> np.ndarray:
    """Returns 1 / position on a strip of k, or 0 if the target is not a word on it, [n] float64.

    >>> reciprocal_ranks(np.array([0, 1, 3]), np.array([True, True, True]), k=3)
    array([1. , 0.5, 0. ])
    """
    return np.where(is_word & (ranks < k), 1.0 / (1.0 + ranks), 0.0)
