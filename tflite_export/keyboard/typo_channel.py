"""How likely fingers are to type one word for another: P(typed | meant), one slip at most.

    none           0.95
    swapped        two neighbouring letters                      0.010 / places
    left out       a letter; one of a double letter is likelier  0.010 / places (doubles 0.020)
    added          the letter once more or a neighbouring key    0.008 / (places x keys)
    another        a neighbouring key                            0.015 / (places x keys)
                   a vowel for a vowel                           0.008 / (places x 4)

The shares are set by hand, in the order of what studies of phone typing report; they are not
fitted to anybody's typing. A noisy channel after Kernighan, Church and Gale 1990, with the keys of
QWERTY. Other alphabets than a to z have no slips here.
"""

from collections.abc import Iterator

NO_SLIP = 0.95
_SWAPPED = 0.010
_LEFT_OUT = 0.010
_LEFT_OUT_DOUBLE = 0.020
_ADDED = 0.008
_NEIGHBOUR = 0.015
_VOWEL = 0.008

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_INDENTS = (0.0, 0.25, 0.75)  # of a row, in keys
_REACH = 1.3  # keys; takes in the six around a key
_VOWELS = "aeiou"


def _neighbours() -> dict[str, str]:
    places = {
        letter: (column + indent, row)
        for row, (letters, indent) in enumerate(zip(_ROWS, _INDENTS, strict=True))
        for column, letter in enumerate(letters)
    }
    return {
        letter: "".join(
            other
            for other, (u, v) in places.items()
            if other != letter and (x - u) ** 2 + (y - v) ** 2 <= _REACH**2
        )
        for letter, (x, y) in places.items()
    }


NEIGHBOURS = _neighbours()


def meant_words(typed: str) -> Iterator[tuple[str, float]]:
    """`(meant, P(typed | meant))` for every string one slip away; some come more than once.

    >>> found = dict(meant_words("teh"))
    >>> round(found["the"], 4), "tep" in found, round(found["tesh"], 4)
    (0.005, False, 0.0025)
    """
    for i in range(len(typed) + 1):
        head, tail = typed[:i], typed[i:]
        yield from _letter_missing(head, tail)
        if not tail:
            continue
        letter, rest = tail[0], tail[1:]
        if head and letter in (head[-1], *NEIGHBOURS.get(head[-1], "")):
            keys = 1 + len(NEIGHBOURS.get(head[-1], ""))
            yield head + rest, _ADDED / (len(typed) * keys)
        if rest and rest[0] != letter:
            yield head + rest[0] + letter + rest[1:], _SWAPPED / (len(typed) - 1)
        for other in NEIGHBOURS.get(letter, ""):
            yield head + other + rest, _NEIGHBOUR / (len(typed) * len(NEIGHBOURS[other]))
        if letter in _VOWELS:
            for other in _VOWELS.replace(letter, ""):
                yield head + other + rest, _VOWEL / (len(typed) * (len(_VOWELS) - 1))


def _letter_missing(head: str, tail: str) -> Iterator[tuple[str, float]]:
    places = len(head) + len(tail) + 1
    for letter in NEIGHBOURS:
        is_double = letter in (head[-1:], tail[:1])
        yield head + letter + tail, (_LEFT_OUT_DOUBLE if is_double else _LEFT_OUT) / places
