"""Builds one vocabulary for several corpora from the text of their train populations.

A model that is trained on a general corpus and fine-tuned on users' text has one word table: the
corpus's, the users', or a merged one, as built here:

    score(w) = sum_c share_c * count_c(w) / (words of c)

The words with the highest scores come first, so a large corpus does not outweigh a small one by its
size. Validation and held-out users have no influence on the vocabulary, and a word must satisfy the
rules of at least one of the stores on its own (`word_choice`).
"""

import collections
import itertools
from collections.abc import Sequence

from tff_keyboard.data.store import word_choice
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.text.identifiers import is_identifier
from tff_keyboard.data.text.word_counts import WordCounts
from tff_keyboard.data.vocabulary import Vocabulary, is_mask
from tff_keyboard.storage.errors import DataError

# Factor from shares to whole numbers for `Vocabulary.from_counts`, enough for 10^12 words.
_ONE = 10**15


def merge_vocabularies(stores: Sequence[ClientStore], size: int) -> Vocabulary:
    """Returns the merged vocabulary of stores that were prepared with the same rules.

    The vocabularies of the stores do not matter, because a store contains OOV words in full.

    Args:
      stores: The stores.
      size: V >= 5, including the special rows.

    Raises:
      DataError: If the stores have different normalisation rules, or one has no train words.
      ValueError: If there is no store, or `size` is out of range.
    """
    if not stores:
        raise ValueError("`stores` must have at least one store.")
    rules = stores[0].vocabulary.rules
    scores: collections.Counter[str] = collections.Counter()
    allowed: set[str] = set()
    for store in stores:
        if store.vocabulary.rules != rules:
            raise DataError(
                f"{store.directory} has different tokenisation rules than "
                f"{stores[0].directory}. Prepare both with the same `data.mode`, "
                "`data.lowercase` and `data.language`."
            )
        store.require_exact_counts()
        counts = WordCounts()
        for client_id in store.client_ids("train"):
            typed = itertools.chain.from_iterable(store.words("train", client_id))
            counts.add_client(word for word in typed if not is_mask(word))
        total = sum(counts.counts.values())
        if not total:
            raise DataError(
                f"{store.directory} has no words of train clients, so no vocabulary can be built."
            )
        for word, count in counts.counts.items():
            scores[word] += round(_ONE * count / total)
        least = store.card["vocabulary"].get(
            "min_word_users", word_choice.usual_min_users(counts.num_clients)
        )
        allowed |= {word for word, clients in counts.clients.items() if clients >= least}
    shared = {word: scores[word] for word in scores if word in allowed and not is_identifier(word)}
    return Vocabulary.from_counts(shared, size, rules)


def coverage(vocabulary: Vocabulary, store: ClientStore, population: str) -> float:
    """Returns the share of a population's words, without masks, that are in the vocabulary."""
    in_vocabulary = total = 0
    words = set(vocabulary.words)
    for client_id in store.client_ids(population):
        for message in store.words(population, client_id):
            typed = [word for word in message if not is_mask(word)]
            total += len(typed)
            in_vocabulary += sum(word in words for word in typed)
    return in_vocabulary / total if total else float("nan")
