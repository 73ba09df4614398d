"""Cuts a paragraph into messages after sentence ends."""

from collections.abc import Sequence

SENTENCE_ENDS = frozenset({".", "!", "?", "...", "…", ";"})


def split_message(tokens: Sequence[str], max_words: int) -> list[list[str]]:
    """Consecutive pieces, each of at most `max_words` >= 1 tokens where the sentences allow it.

    A piece ends after the last sentence end that fits, and where there is none, after the next one:
    it never ends where nobody ended anything. Text in `mode="words"` has no punctuation, and so it
    is not cut.

    >>> split_message("a b . c d e f g . h".split(), max_words=4)
    [['a', 'b', '.'], ['c', 'd', 'e', 'f', 'g', '.'], ['h']]
    """
    pieces = []
    rest = list(tokens)
    while len(rest) > max_words:
        ends = [place for place, token in enumerate(rest, start=1) if token in SENTENCE_ENDS]
        fitting = [end for end in ends if end <= max_words]
        end = max(fitting) if fitting else min(ends, default=len(rest))
        pieces.append(rest[:end])
        rest = rest[end:]
    return [*pieces, rest] if rest else pieces
