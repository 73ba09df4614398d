"""Splits a paragraph into messages at sentence ends."""

from collections.abc import Sequence

SENTENCE_ENDS = frozenset({".", "!", "?", "...", "…", ";"})


def split_message(tokens: Sequence[str], max_words: int) -> list[list[str]]:
    """Returns consecutive pieces of at most `max_words` >= 1 tokens, if the sentences allow it.

    A piece ends after the last sentence end that fits, or after the next one if none fits. It never
    ends inside a sentence. Text in `mode="words"` has no punctuation, so it is not split.

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
