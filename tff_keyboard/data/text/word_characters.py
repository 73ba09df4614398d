"""The characters that form words: one table for TensorFlow and for pure Python.

TensorFlow's regular expressions, its ICU and each Python release have different versions of
Unicode, so `\p{L}` or `str.isalpha` would give other tokens on a phone than in training. This table
is therefore written out, and both tokenisers build their patterns from it.

`WORD_RANGES` (`word_ranges.txt`) contains the letters, combining marks and decimal digits
(categories L*, M*, Nd) of Unicode 12.1, the latest version in tensorflow-text 2.14, without
invisible fillers, variation selectors, marks for symbols, and the modifier apostrophe U+02BC
(treated as an apostrophe). It was made from the Unicode Character Database 12.1. Letters added
later separate words.

>>> word_class = ranges_class(WORD_RANGES)
>>> import re
>>> re.findall(f"[{word_class}]+", "Así es, 7 días")
['Así', 'es', '7', 'días']
"""

import pathlib

# A space in NFKC, or invisible: the separators of `mode="whitespace"`. They are
# the White_Space property, unchanged since Unicode 6.3, and NUL.
WHITESPACE_RANGES = "0 9-d 20 85 a0 1680 2000-200a 2028-2029 202f 205f 3000"

# Pictographs by block, so that emoji of later Unicode versions are words too:
# neither normalisation nor lower case changes them.
EMOJI_RANGES = (
    "231a-231b 2328 23cf 23e9-23f3 23f8-23fa 25fb-25fe 2600-2775 2794-27bf 2b05-2b07 2b1b-2b1c "
    "2b50 2b55 1f000-1f0ff 1f300-1f3fa 1f400-1faff"
)
FLAG_RANGES = "1f1e6-1f1ff"  # two regional indicators make one flag
SKIN_TONE_RANGES = "1f3fb-1f3ff"
VARIATION_RANGES = "fe0e-fe0f"  # choose text or picture form
# Blanks and invisible characters: controls, marks that join, hide or reverse the text near them,
# and
# surrogates. Categories Zs, Zl, Zp, Cc, Cf and Cs of Unicode 15.0, and U+2065, which is unassigned.
HIDDEN_RANGES = (
    "0-20 7f-a0 ad 600-605 61c 6dd 70f 890-891 8e2 1680 180e 2000-200f 2028-202f 205f-206f 3000 "
    "d800-dfff feff fff9-fffb 110bd 110cd 13430-1343f 1bca0-1bca3 1d173-1d17a e0001 e0020-e007f"
)
ZERO_WIDTH_NON_JOINER = 0x200C
ZERO_WIDTH_JOINER = 0x200D

WORD_RANGES = pathlib.Path(__file__).with_name("word_ranges.txt").read_text("ascii")


def parse_ranges(ranges: str) -> list[tuple[int, int]]:
    """Returns the code point ranges of a table above, both ends included.

    >>> parse_ranges("41-43 61")
    [(65, 67), (97, 97)]
    """
    pairs = []
    for part in ranges.split():
        first, _, last = part.partition("-")
        pairs.append((int(first, 16), int(last or first, 16)))
    return pairs


def ranges_class(*tables: str) -> str:
    """Returns the inside of a regular-expression character class, for RE2 and for `re`.

    >>> ranges_class("41-43 61", "ac00-d7a3")
    'A-Ca가-힣'
    """
    parts = []
    for first, last in (pair for table in tables for pair in parse_ranges(table)):
        parts.append(_literal(first) if first == last else f"{_literal(first)}-{_literal(last)}")
    return "".join(parts)


def _literal(code_point: int) -> str:
    """Returns a character for a class. Escapes ASCII other than letters and digits."""
    character = chr(code_point)
    if code_point < 0x80 and not character.isalnum():
        return f"\\x{code_point:02x}"
    return character
