"""Records the capitals of messages in addition to lower-case tokens, for the truecase table.

A capital at the start of a sentence gives no information about its word; a capital inside does.
Capitals of a message that is typed in capitals only ("SEE YOU THERE") give none, so its words count
as typed in lower case. Sentences begin as they do on the keyboard.
"""

import re
from typing import NamedTuple

_UPPER = frozenset(chr(code) for code in range(0x2000) if chr(code) != chr(code).lower())
_WITH_CAPITAL = re.compile(rf"\S*[{re.escape(''.join(sorted(_UPPER)))}]\S*")
_BEHIND_AN_END = re.compile(r"""(?:(?<![.!?…])\.|(?<!\.)[!?]+(?!\.))["'’”)\]]*\s+\Z""")
_LOOK_BACK = 8  # characters; enough for a dot, a bracket and some blanks


class Capitals(NamedTuple):
    """The capitals of one message. A chunk is the text between white space, with punctuation."""

    begins: bool  # whether the message begins with a capital
    inside: list[str]  # chunks with a capital that do not begin a sentence
    starting: list[str]  # chunks with a capital that begin a sentence

    def line(self) -> str:
        """Returns the capitals as one line of text; "" if there are none."""
        if not self.inside and not self.starting:
            return ""
        return "\t".join(
            ("^" if self.begins else "", " ".join(self.inside), " ".join(self.starting))
        )

    @classmethod
    def of_line(cls, line: str) -> "Capitals":
        """Parses the result of `line`."""
        if not line:
            return cls(False, [], [])
        begins, *chunks = line.split("\t")
        return cls(bool(begins), *(part.split(" ") if part else [] for part in chunks))


def capitals_of(text: str) -> Capitals:
    """Finds the capitals of a message.

    >>> capitals_of("Meet Ann. She has my NUS card")
    Capitals(begins=True, inside=['Ann.', 'NUS'], starting=['Meet', 'She'])
    >>> capitals_of("SEE YOU THERE!")
    Capitals(begins=False, inside=[], starting=[])
    """
    if text == text.upper() and len(_WITH_CAPITAL.findall(text)) > 1:
        return Capitals(False, [], [])
    inside: list[str] = []
    starting: list[str] = []
    begins = False
    for match in _WITH_CAPITAL.finditer(text):
        start = match.start()
        before = text[max(0, start - _LOOK_BACK) : start]
        if not before.strip() and not text[:start].strip():
            begins = True
            starting.append(match.group())
        elif _BEHIND_AN_END.search(before):
            starting.append(match.group())
        else:
            inside.append(match.group())
    return Capitals(begins, inside, starting)


def capitals_line(text: str) -> str:
    """Returns `capitals_of(text).line()`, quickly if only the first letter is a capital."""
    after_first = text[1:]
    if after_first == after_first.lower():
        return "^\t\t" + text.split(None, 1)[0] if text[:1] in _UPPER else ""
    return capitals_of(text).line()
