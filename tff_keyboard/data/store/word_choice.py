"""Chooses the vocabulary: the most frequent words that several train users typed.

A vocabulary is released in clear text with every model, and the privacy of the training does not
cover it. A word therefore needs `min_users` users that typed it, and words that look like a
personal number or key (`text.identifiers`) are never included. Among the other words, the most
frequent ones are chosen.
"""

import dataclasses
from collections.abc import Sequence

from tff_keyboard.data.text.identifiers import is_identifier
from tff_keyboard.data.text.word_counts import WordCounts
from tff_keyboard.data.vocabulary import NUM_SPECIAL, NormalisationRules, Vocabulary, is_mask

MANY_CLIENTS = 1_000
_FEW_USERS, _MANY_USERS = 2, 5


def usual_min_users(num_clients: int) -> int:
    """Returns the default of `min_word_users`: 5 from 1,000 users on, else 2.

    >>> usual_min_users(999), usual_min_users(1000)
    (2, 5)
    """
    return _MANY_USERS if num_clients >= MANY_CLIENTS else _FEW_USERS


@dataclasses.dataclass(frozen=True)
class WordChoice:
    """A vocabulary, and its differences from one with the most frequent words alone."""

    # The vocabulary; at least `facts["min_word_users"]` users typed each of its words
    vocabulary: Vocabulary
    left_out: frozenset[str]  # words of the vocabulary by counts alone that are not in `vocabulary`
    # First of the rows that replace them: they are not in the vocabulary by counts alone
    first_instead: int
    facts: dict[str, int]  # facts for the data card


def choose_words(
    counts: WordCounts, *, size: int, min_count: int, min_users: int, rules: NormalisationRules
) -> WordChoice:
    """Chooses the vocabulary from the words of train users.

    Args:
      counts: Counts over train users.
      size: V >= 5, including the special rows.
      min_count: Minimum number of occurrences of a word, >= 1.
      min_users: Minimum number of users that typed a word, >= 1.
      rules: The normalisation rules.

    Raises:
      ValueError: If `size` is too small, or no word is left.
    """
    frequent = {word: count for word, count in counts.counts.items() if count >= min_count}
    by_count = {word: count for word, count in frequent.items() if not is_mask(word)}
    of_several = {w: count for w, count in by_count.items() if counts.clients[w] >= min_users}
    allowed = {w: count for w, count in of_several.items() if not is_identifier(w)}
    if not allowed:
        raise ValueError(f"no word was typed {min_count} times by {min_users} users.")
    selected = Vocabulary.from_counts(allowed, size, rules)
    plain = Vocabulary.from_counts(by_count, size, rules).words[NUM_SPECIAL:]
    rows = set(selected.words)
    left_out = frozenset(word for word in plain if word not in rows)
    facts = {
        "min_word_users": min_users,
        "people": counts.num_clients,
        "words_of_one_person": sum(1 for clients in counts.clients.values() if clients == 1),
        "words_of_too_few_people": len(by_count) - len(of_several),
        "identifiers_left_out": len(of_several) - len(allowed),
        "rows_of_one_person": _of_one_client(counts, selected.words[NUM_SPECIAL:]),
        "rows_by_counts": NUM_SPECIAL + len(plain),
        "rows_of_one_person_by_counts": _of_one_client(counts, plain),
    }
    # Both vocabularies are sorted by count, so the replacements are the last rows.
    return WordChoice(selected, left_out, NUM_SPECIAL + len(plain) - len(left_out), facts)


def _of_one_client(counts: WordCounts, words: Sequence[str]) -> int:
    return sum(1 for word in words if counts.clients[word] == 1)
