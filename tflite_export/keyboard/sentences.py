"""Finds where the sentence being typed begins, so that the model starts afresh with a capital.

A newline, or one `.`, `!`, `?` (several of `!?`) behind a word and white space after it. Two dots
and more trail off and end nothing. The page's `field.js` has the same rule for its shift key.
"""

import itertools
import re

_LOOK_BACK = 1000  # characters; the runtime reads no more of a text either

_END = re.compile(r"""\n | (?:(?<![.!?…])\. | (?<!\.)[!?]+(?!\.)) ["'’”)\]]* \s""", re.VERBOSE)


def sentence_of(text: str) -> str:
    """What is typed of the last sentence, cursor at the end.

    >>> sentence_of("I'll be there. See y"), sentence_of("ok... see"), sentence_of("at 7.30 in")
    ('See y', 'ok... see', 'at 7.30 in')
    >>> sentence_of("Really?! (Yes.) ")
    ''
    """
    start = 0
    text = text[-_LOOK_BACK:]
    for end in _END.finditer(text):
        start = end.end()
    return text[start:].lstrip()


def sentences_of(text: str) -> list[str]:
    """All of a text, cut where `sentence_of` would begin anew; white space around them is gone.

    >>> sentences_of("Really?! (Yes.) ok... see you\\nat 7.30")
    ['Really?!', '(Yes.)', 'ok... see you', 'at 7.30']
    """
    ends = [0, *(end.end() for end in _END.finditer(text)), len(text)]
    pieces = (text[start:end].strip() for start, end in itertools.pairwise(ends))
    return [piece for piece in pieces if piece]
