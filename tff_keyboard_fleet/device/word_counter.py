"""Counts the words of a device that are not in the vocabulary, in a round that looks for new words.

A word counts only if it may be in a vocabulary of `prepare`, and if it stands alone between white
space, brackets, quotes and marks of sentences. So the parts of an address, a file name or a
password with digits or other signs are not words: "report.pdf", "@johann", "hunter_2", "and/or". A
password of letters alone looks like a word; the cache must not have text of password fields.

The words that the user typed most often come first, and equally frequent ones in random order. Each
counts once. A device takes part in one round of a search, so its choices in two rounds need not
agree; among the words with a prefix of the round, each has its chance.
"""

import collections
import random
import re
import secrets
from collections.abc import Sequence

import numpy as np

from tff_keyboard.data.text.identifiers import is_identifier
from tff_keyboard.data.text.python_tokenizer import APOSTROPHES, HYPHENS, PythonTokenizer
from tff_keyboard.data.vocabulary import OOV, Vocabulary
from tff_keyboard_fleet.wire import word_cells
from tff_keyboard_fleet.wire.plan import MAX_LENGTH, Plan

_BEFORE = "([{<\"'“”‘«„¿¡*"
_AFTER = ")]}>\"'“”’»*.,;:!?…"
# A chunk of text that is one word: letters, and single apostrophes or hyphens between them
_ONE_WORD = re.compile(
    rf"[^\W\d_]+(?:(?:'|{APOSTROPHES}|-|{HYPHENS})[^\W\d_]+)*",
)


def count(
    texts: Sequence[str],
    vocabulary: Vocabulary,
    plan: Plan,
    rng: random.Random | None = None,
) -> np.ndarray:
    """Returns the vector of a device (`word_cells.to_vector`).

    Args:
      texts: Its messages.
      vocabulary: The words that are not new, and the rules for text.
      plan: A plan with `new_words`.
      rng: Decides between equally frequent words; by default the system's random numbers.
    """
    work = plan.new_words
    assert work is not None
    return word_cells.to_vector(
        new_words(texts, vocabulary, work.alphabet, rng),
        work.prefixes,
        work.alphabet,
        work.letters,
        size=work.size,
        max_cells=work.max_cells,
    )


def new_words(
    texts: Sequence[str],
    vocabulary: Vocabulary,
    alphabet: str,
    rng: random.Random | None = None,
) -> list[str]:
    """Returns the words of messages that are not in the vocabulary, the most frequent ones first.

    Args:
      texts: Messages.
      vocabulary: The known words, and the rules for text.
      alphabet: The characters of words.
      rng: Decides between equally frequent words; by default the system's random numbers.
    """
    tokenizer = PythonTokenizer(vocabulary.rules)
    known_letters = set(alphabet)
    counts: collections.Counter[str] = collections.Counter()
    for text in texts:
        for chunk in text.split():
            words = tokenizer.tokenize_one(chunk) if _is_one_word(chunk) else []
            if len(words) == 1 and _may_be_new(words[0], vocabulary, known_letters):
                counts[words[0]] += 1
    in_random_order = sorted(counts)
    (rng or secrets.SystemRandom()).shuffle(in_random_order)
    return sorted(in_random_order, key=lambda word: -counts[word])


def _is_one_word(chunk: str) -> bool:
    stripped = chunk.lstrip(_BEFORE).rstrip(_AFTER)
    return _ONE_WORD.fullmatch(stripped) is not None


def _may_be_new(word: str, vocabulary: Vocabulary, letters: set[str]) -> bool:
    """Checks if a word counts: unknown, of letters of the alphabet, and not an identifier."""
    return (
        len(word) <= MAX_LENGTH
        and vocabulary.id_of(word) == OOV
        and set(word) <= letters
        and not is_identifier(word)
    )
