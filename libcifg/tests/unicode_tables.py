"""Writes `cifg/unicode.h`: the tokeniser's tables of characters, as C++.

python -m libcifg.tests.unicode_tables > libcifg/cifg/unicode.h
"""

import unicodedata
from collections.abc import Iterable

from tff_keyboard.data.text import word_characters
from tff_keyboard.data.text.python_tokenizer import lower_case

_HEAD = """\
// Generated from tff_keyboard/data/text/word_characters.py by libcifg/tests/unicode_tables.py.
#pragma once

#include <cstdint>

namespace cifg {

struct Range {  // of code points, both ends included
  uint32_t first, last;
};
struct ShortRange {  // `first` and `more` code points behind it
  uint32_t first : 21, more : 11;
};
struct Lowered {  // `count` code points from `first` on, every `step`-th, have this lower case
  uint32_t first;
  uint16_t count, step;
  int32_t difference;
};
"""


def source() -> str:
    """Returns the header's text."""
    words = word_characters
    everything = range(0x110000)
    numbers = [c for c in everything if unicodedata.category(chr(c))[0] == "N"]
    numeric = {c for c in everything if unicodedata.numeric(chr(c), None) is not None}
    tables = {
        "kWordRanges": words.parse_ranges(words.WORD_RANGES),
        "kEmojiRanges": words.parse_ranges(words.EMOJI_RANGES),
        "kWhitespaceRanges": words.parse_ranges(words.WHITESPACE_RANGES),
        "kHiddenRanges": words.parse_ranges(words.HIDDEN_RANGES),
    }
    short = {
        "kNumberRanges": _ranges(numbers),  # categories Nd, Nl and No
        "kNumeralRanges": _ranges(sorted(numeric.difference(numbers))),  # ideographs with a value
    }
    parts = [_HEAD]
    for name, pairs in tables.items():
        parts.append(_table("Range", name, (f"{{{a:#x}, {b:#x}}}" for a, b in pairs)))
    for name, pairs in short.items():
        parts.append(_table("ShortRange", name, (f"{{{a:#x}, {b - a}}}" for a, b in pairs)))
    runs = (f"{{{a:#x}, {n}, {step}, {d}}}" for a, n, step, d in _lowered_runs())
    parts.append(_table("Lowered", "kLowered", runs))
    return "\n".join([*parts, "}  // namespace cifg\n"])


def _ranges(codes: Iterable[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for code in codes:
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def _lowered_runs() -> list[tuple[int, int, int, int]]:
    """Returns `(first, count, step, difference)` of characters with a one-character lower case."""
    runs: list[tuple[int, int, int, int]] = []
    for code in range(0x110000):
        if 0xD800 <= code < 0xE000:
            continue
        lower = lower_case(chr(code))
        if lower == chr(code) or len(lower) != 1:  # U+0130 alone has two
            continue
        difference = ord(lower) - code
        if runs and runs[-1][3] == difference:
            first, count, step, _ = runs[-1]
            gap = code - (first + (count - 1) * step)
            if gap == step or (count == 1 and gap <= 2):
                runs[-1] = (first, count + 1, gap, difference)
                continue
        runs.append((code, 1, 1, difference))
    return runs


def _table(type_: str, name: str, items: Iterable[str]) -> str:
    lines, line = [], "   "
    for item in items:
        if len(line) + len(item) > 96:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([f"constexpr {type_} {name}[] = {{", *lines, line, "};", ""])


if __name__ == "__main__":
    print(source(), end="")
