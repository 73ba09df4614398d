"""Cuts a paragraph into messages that training does not have to cut."""

from __future__ import annotations

from collections.abc import Sequence

SENTENCE_ENDS = frozenset({".", "!", "?", "...", "…", ";"})


def split_message(tokens: Sequence[str], max_words: int) -> list[list[str]]:
    """Consecutive pieces of at most `max_words` tokens.

    A piece ends after the last sentence end that fits, and where there is none, when
    it is full. Text in `mode="words"` has no punctuation and so only full pieces.

    >>> split_message("a b . c d e f".split(), max_words=4)
    [['a', 'b', '.'], ['c', 'd', 'e', 'f']]

    Args:
      tokens: Not empty.
      max_words: >= 1.
    """
    pieces = []
    rest = list(tokens)
    while len(rest) > max_words:
        end = max_words
        for position in range(max_words - 1, -1, -1):
            if rest[position] in SENTENCE_ENDS:
                end = position + 1
                break
        pieces.append(rest[:end])
        rest = rest[end:]
    pieces.append(rest)
    return pieces
