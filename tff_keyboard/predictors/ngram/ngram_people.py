"""How many people typed each n-gram, so that the file holds nothing that only one person says.

An n-gram file is counts of text without noise. Rare n-grams are often one person's own (a name
behind a name, a password behind "is"), and a file that lists them can be asked for them. Those
typed by fewer people than wanted are dropped; the words by themselves obey the vocabulary's own
threshold (`data.min_word_users`). This is k-anonymity of what is listed and no differential
privacy: the probabilities of what stays still depend on everybody.
"""

from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.vocabulary import BOS, EOS
from tff_keyboard.predictors.ngram.kneser_ney import KneserNey


def people_of_ngrams(
    model: KneserNey, messages: Sequence[np.ndarray], owners: Sequence[int]
) -> list[np.ndarray]:
    """Distinct people who typed each n-gram: [rows] int64 for each of `model.tables`.

    The model is not pruned; messages are its text, [words] each, without BOS and EOS, and owners
    their people, numbers from 0 on, as many or a `ValueError`.
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
    before = text  # of each place: the row of the n-gram that ends there, -1 for none
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
