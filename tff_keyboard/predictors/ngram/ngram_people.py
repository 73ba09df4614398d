"""Counts the users of each n-gram, so that a file can leave out n-grams of only one user.

An n-gram file contains counts of text without noise. Rare n-grams are often private (a surname
after a name, a password after "is"), and can be read from a file that lists them. N-grams of fewer
users than required are dropped. Single words obey the vocabulary's own threshold
(`data.min_word_users`). This is k-anonymity of the listed n-grams, not differential privacy: the
probabilities of the remaining n-grams still depend on all users.
"""

from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey


def people_of_ngrams(
    model: KneserNey, messages: Sequence[np.ndarray], owners: Sequence[int]
) -> list[np.ndarray]:
    """Returns the number of distinct users of each n-gram, [rows] int64 for each of `model.tables`.

    Args:
      model: A model that is not pruned.
      messages: The text of the model, [words] each, without BOS and EOS.
      owners: The user of each message, numbers from 0 on. Another length is a `ValueError`.
    """
    if len(messages) != len(owners):
        raise ValueError(f"There are {len(messages)} messages and {len(owners)} owners.")
    size = model.vocabulary_size
    lengths = np.array([len(message) + 2 for message in messages])
    text = np.concatenate([[BOS, *message, EOS] for message in messages]).astype(np.int64)
    owner = np.repeat(np.asarray(owners, np.int64), lengths)
    is_start = np.zeros(len(text), bool)
    is_start[np.cumsum(lengths) - lengths] = True
    people = int(owner.max(initial=0)) + 1
    found = []
    before = text  # for each position, the row of the n-gram that ends there, or -1
    for table in model.tables:
        keys = table.keys(size)
        context = np.where(is_start, -1, np.roll(before, 1))
        wanted = context * size + text
        rows = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
        known = (context >= 0) & (keys[rows] == wanted) if len(keys) else np.zeros(len(text), bool)
        pairs = np.unique(rows[known] * people + owner[known])
        found.append(np.bincount(pairs // people, minlength=len(keys)))
        before = np.where(known, rows, -1)
    return found
