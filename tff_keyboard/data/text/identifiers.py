"""Words that identify one person, object or moment: phone numbers, hashes, time stamps.

A vocabulary is sent in clear text to every phone, and a keyboard completes its words. A number that
two users typed is still not a word, because all friends of a person type that person's telephone
number. Identifiers are therefore never in a vocabulary, regardless of the number of users. They
stay in the store, as OOV.
"""

import re

# Characters that join digits in tokens of `mode="words"`; "_" and "/" also in "whitespace".
_JOINTS = re.compile(r"(?<=\d)[-.,:'/_](?=\d)")
_MANY_DIGITS = re.compile(r"\d{5}")
_DATE_OR_CLOCK = re.compile(r"(?<!\d)\d{1,4}([-/:.])\d{1,2}\1\d{1,4}(?!\d)")
_HEX_JOINTS = re.compile(r"[-:]")
_HEX = re.compile(r"[0-9a-f]{6,}", re.IGNORECASE)
_SURELY_HEX = re.compile(r"0x[0-9a-f]{5,}|[0-9a-f]{16,}", re.IGNORECASE)


def is_identifier(word: str) -> bool:
    """Checks if a token looks like an identifier, which must not be in a vocabulary.

    - five or more digits in a row, ignoring marks between digits: numbers of telephones, accounts,
      postcodes, network addresses, times to the second;
    - hexadecimal: six or more characters with at least two digits and a letter, or "0x" and five,
      or any sixteen; ignoring hyphens and colons, as in a UUID;
    - dates and clock times with three parts (`1-2-13`).

    Clock times and versions with two parts are words that many users type. The number of users that
    typed them decides.

    >>> all(map(is_identifier, ["90481234", "9048-1234", "01:09:36", "5f3a9c1e", "0xb7fff"]))
    True
    >>> any(map(is_identifier, ["7:30", "2013", "10.04", "face2face", "decade", "2moro", "b4"]))
    False
    """
    if word.isalpha() and len(word) < 16:
        return False
    if _MANY_DIGITS.search(_JOINTS.sub("", word)) or _DATE_OR_CLOCK.search(word):
        return True
    joined = _HEX_JOINTS.sub("", word)
    if _SURELY_HEX.fullmatch(joined):
        return True
    return _HEX.fullmatch(joined) is not None and sum(map(str.isdigit, joined)) >= 2
