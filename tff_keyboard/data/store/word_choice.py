"""Chooses the vocabulary: the most frequent words that several train people typed.

A vocabulary is released in the clear with every model, and no privacy of the training covers it. So
a word needs `min_users` people who typed it, and what looks like a number or a key of somebody
(`text.identifiers`) never enters. Among the rest, the most frequent words are taken.
"""

import dataclasses
from collections.abc import Sequence

from tff_keyboard.data.text.identifiers import is_identifier
from tff_keyboard.data.text.word_counts import WordCounts
from tff_keyboard.data.vocabulary import NUM_SPECIAL, NormalisationRules, Vocabulary, is_mask

MANY_PEOPLE = 1_000
_FEW_USERS, _MANY_USERS = 2, 5


def usual_min_users(num_people: int) -> int:
    """People who must have typed a word where a config does not say: 5 of 1,000 or more, else 2.

    >>> usual_min_users(999), usual_min_users(1000)
    (2, 5)
    """
    return _MANY_USERS if num_people >= MANY_PEOPLE else _FEW_USERS


@dataclasses.dataclass(frozen=True)
class WordChoice:
    """A vocabulary and what it left out, against that of the most frequent words alone."""

    # The table; each of its words was typed by `facts["min_word_users"]` people
    vocabulary: Vocabulary
    left_out: frozenset[str]  # words of the table by counts alone that are not in `vocabulary`
    # Rows from here on stand in their place: they are not in the table by counts
    first_instead: int
    facts: dict[str, int]  # what a data card says of it


def choose_words(
    counts: WordCounts, *, size: int, min_count: int, min_users: int, rules: NormalisationRules
) -> WordChoice:
    """The vocabulary of what train people typed.

    Words typed less often than `min_count` or by fewer people than `min_users` stay out, both >= 1;
    `size` is V >= 5, with the special rows. Raises `ValueError` if `size` is too small, or no word
    is left.
    """
    frequent = {word: count for word, count in counts.counts.items() if count >= min_count}
    by_count = {word: count for word, count in frequent.items() if not is_mask(word)}
    of_several = {w: count for w, count in by_count.items() if counts.people[w] >= min_users}
    allowed = {w: count for w, count in of_several.items() if not is_identifier(w)}
    if not allowed:
        raise ValueError(f"none was typed {min_count} times by {min_users} people.")
    chosen = Vocabulary.from_counts(allowed, size, rules)
    plain = Vocabulary.from_counts(by_count, size, rules).words[NUM_SPECIAL:]
    rows = set(chosen.words)
    left_out = frozenset(word for word in plain if word not in rows)
    facts = {
        "min_word_users": min_users,
        "people": counts.num_people,
        "words_of_one_person": sum(1 for people in counts.people.values() if people == 1),
        "words_of_too_few_people": len(by_count) - len(of_several),
        "identifiers_left_out": len(of_several) - len(allowed),
        "rows_of_one_person": _of_one_person(counts, chosen.words[NUM_SPECIAL:]),
        "rows_by_counts": NUM_SPECIAL + len(plain),
        "rows_of_one_person_by_counts": _of_one_person(counts, plain),
    }
    # Both tables are in the order of counts, so what moved up stands at the end.
    return WordChoice(chosen, left_out, NUM_SPECIAL + len(plain) - len(left_out), facts)


def _of_one_person(counts: WordCounts, words: Sequence[str]) -> int:
    return sum(1 for word in words if counts.people[word] == 1)
