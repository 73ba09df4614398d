"""Finds the beginning of the sentence being typed, where the model starts without context.

A sentence ends at a newline, or at one `.`, `!` or `?` (or several of `!?`) that follows a word and
is followed by white space. Two dots or more do not end a sentence, nor does the full stop of a
common abbreviation. White space and the Spanish marks "¿" and "¡" before the first word do not
belong to the sentence. The page's `field.js` has the same rules for its shift key.
"""

import itertools
import re
from collections.abc import Iterator

_LOOK_BACK = 1000  # characters; the runtime does not read more of a text either

# All languages in one list: none of them is the last word of a sentence in another language.
ABBREVIATIONS = (
    "etc", "i.e", "e.g", "approx", "mr", "mrs", "ms", "dr", "prof", "vs",
    "z.b", "d.h", "u.a", "bzw", "ca", "usw", "ggf", "evtl", "inkl",
    "örn", "bkz", "vb",
    "sr", "sra", "ud", "uds", "p.ej", "p.ex",
    "bijv", "bv", "enz", "d.w.z", "o.a", "i.p.v", "m.b.t",
)  # fmt: skip
_LONGEST_ABBREVIATION = max(map(len, ABBREVIATIONS))
_ABBREVIATED = re.compile(
    rf"(?<![\w.])(?:{'|'.join(map(re.escape, ABBREVIATIONS))})\Z", re.IGNORECASE
)

_BEFORE = re.compile(r"\A[\s¿¡]+")
_END = re.compile(r"""\n | (?:(?<![.!?…])\. | (?<!\.)[!?]+(?!\.)) ["'’”)\]]* \s""", re.VERBOSE)


def sentence_of(text: str) -> str:
    """Returns the typed part of the last sentence, with the cursor at the end.

    >>> sentence_of("I'll be there. See y"), sentence_of("ok... see"), sentence_of("at 7.30 in")
    ('See y', 'ok... see', 'at 7.30 in')
    >>> sentence_of("pens, paper etc. and")
    'pens, paper etc. and'
    >>> sentence_of("Really?! (Yes.) "), sentence_of("Hola. ¿Qu")
    ('', 'Qu')
    """
    start = 0
    text = text[-_LOOK_BACK:]
    for end in _ends(text):
        start = end
    return _BEFORE.sub("", text[start:])


def sentences_of(text: str) -> list[str]:
    r"""Splits a text into sentences, without white space and "¿" around them.

    >>> sentences_of("Really?! (Yes.) ok... see you\nat 7.30")
    ['Really?!', '(Yes.)', 'ok... see you', 'at 7.30']
    """
    ends = [0, *_ends(text), len(text)]
    pieces = (_BEFORE.sub("", text[a:b]).rstrip() for a, b in itertools.pairwise(ends))
    return [piece for piece in pieces if piece]


def _ends(text: str) -> Iterator[int]:
    """Yields the positions after the end of each sentence."""
    for end in _END.finditer(text):
        before = text[max(0, end.start() - _LONGEST_ABBREVIATION - 1) : end.start()]
        if end[0][0] != "." or end[0][-1] == "\n" or not _ABBREVIATED.search(before):
            yield end.end()
