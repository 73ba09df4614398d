"""Prediction impression recall: how often a strip that was shown held the word typed next.

Hard et al. 2018 (section 6, https://arxiv.org/abs/1811.03604) divide the predictions that match
what the user entered by the times prediction candidates were shown. An impression is a strip of
next words before any character of the word is typed, so a message of n words has n + 1: one before
each word and one behind the last, which nothing matches. The first one of a message is the zero
state (an opened keyboard). Opened keyboards nobody types on leave no trace in text.

    prediction_impression_recall = impression_matches / impressions
    zero_state_recall            = zero_state_matches / zero_state_impressions
    mrr_at_3                     = reciprocal_ranks / words typed

where a reciprocal rank is 1 / place on the strip, and 0 for a word that is not on it.
"""

import numpy as np


def reciprocal_ranks(ranks: np.ndarray, is_word: np.ndarray, k: int) -> np.ndarray:
    """[n] float64: 1 / place on a strip of k, 0 where the target is not on it or is no word.

    >>> reciprocal_ranks(np.array([0, 1, 3]), np.array([True, True, True]), k=3)
    array([1. , 0.5, 0. ])
    """
    return np.where(is_word & (ranks < k), 1.0 / (1.0 + ranks), 0.0)
