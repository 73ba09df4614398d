"""Words that name one person, thing or moment: phone numbers, hashes, time stamps.

A vocabulary goes to everybody's phone in the clear, and a keyboard completes its words. That two
people typed a number does not make it a word: all its owner's friends type a telephone number. So
these never enter a vocabulary, whoever typed them. They stay in the store, as OOV.
"""

import re

# Marks that join digits to one number in `mode="words"` tokens; "_" and "/" in "whitespace" ones.
_JOINTS = re.compile(r"(?<=\d)[-.,:'/_](?=\d)")
_MANY_DIGITS = re.compile(r"\d{5}")
_DATE_OR_CLOCK = re.compile(r"(?<!\d)\d{1,4}([-/:.])\d{1,2}\1\d{1,4}(?!\d)")
_HEX_JOINTS = re.compile(r"[-:]")
_HEX = re.compile(r"[0-9a-f]{6,}", re.IGNORECASE)
_SURELY_HEX = re.compile(r"0x[0-9a-f]{5,}|[0-9a-f]{16,}", re.IGNORECASE)


def is_identifier(word: str) -> bool:
    """Whether a token looks like what no vocabulary should hold.

    - five digits or more in a row, marks between digits aside: numbers of telephones, accounts,
      postcodes, network addresses, times to the second;
    - hexadecimal: six places or more with two digits and a letter among them, or "0x" and five, or
      sixteen of any kind; hyphens and colons aside, as in a UUID;
    - dates and clock times of three parts (`1-2-13`).

    Clock times and versions of two parts are words that many type, and are left to the number of
    people who typed them.

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
