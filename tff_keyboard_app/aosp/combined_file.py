"""`.combined`: the text form of a dictionary of AOSP's LatinIME and its descendants.

    # a remark
    dictionary=main:en,locale=en,description=...,date=1700000000,version=1
     word=the,f=226
      bigram=same,f=231
     word=omw,f=1,not_a_word=true
      shortcut=on my way,f=14

f is a probability on a logarithmic scale; 0 marks a word that may be typed and is never suggested:

    f = 255 + log(p) / log(1.15), rounded, at least 1

`dicttool makedict` compiles it to the `.dict` that a keyboard loads, with a bigram's f in 16 steps
above the word's own (`engine.py`). A shortcut is offered for its word; its f is 0 to 14, or 15 if
it replaces the word. The reader skips shortcuts, entries that are not words, and further fields.

Sources: AOSP, packages/inputmethods/LatinIME: dictionaries/sample.combined (the format and "each
decrement in 1 dividing probability by 1.15"), tools/dicttool, CombinedInputOutput.java.
"""

import collections
import dataclasses
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tff_keyboard.storage.errors import DataError

SUFFIX = ".combined"
BASE = 1.15
MAX_FREQUENCY = 255
_PERSONAL = 160  # f of a word of a personal dictionary: once in 600,000 words
_OFFERED = 14  # the largest f of a shortcut that does not replace its word by itself
LONGEST_WORD = 47  # code points; makedict leaves out longer words

_LINE = re.compile(r"\s*(?P<kind>word|bigram|shortcut)=(?P<word>[^,]+)(?P<rest>(,[^,=]+=[^,]*)*)")
_SEPARATOR = re.compile(r"[,=\x00-\x1f]")
_UNFIT = re.compile(r"[,=:#\s\x00-\x1f]")


def frequency_of(probability: np.ndarray) -> np.ndarray:
    """Returns f of probabilities, int64 in [1, 255]; 1 for a probability <= 0.

    >>> frequency_of(np.array([1.0, 1 / 1.15, 0.01, 0.0])).tolist()
    [255, 254, 222, 1]
    """
    with np.errstate(divide="ignore"):
        scaled = MAX_FREQUENCY + np.log(np.maximum(probability, 0.0)) / math.log(BASE)
    return np.clip(np.round(scaled), 1, MAX_FREQUENCY).astype(np.int64)


def may_be_listed(word: str) -> bool:
    """Returns whether a list can hold a word: it has a letter, no separator, and is not too long.

    >>> [may_be_listed(word) for word in ("don't", "1=1", "42", "x" * 49)]
    [True, False, False, False]
    """
    return (
        len(word) <= LONGEST_WORD
        and not _UNFIT.search(word)
        and any(character.isalpha() for character in word)
    )


@dataclasses.dataclass(frozen=True)
class WordList:
    """A dictionary.

    Attributes:
      header: Fields of its first line, including `dictionary`. No value contains `,` or `=`, and
        only the value of `dictionary` may contain `:`.
      words: Word -> f, in the order of the file.
      bigrams: Word -> next word -> f.
      shortcuts: What is typed -> the text that is offered for it. No text contains `,` or `=`.
    """

    header: Mapping[str, str]
    words: Mapping[str, int]
    bigrams: Mapping[str, Mapping[str, int]]
    shortcuts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def num_bigrams(self) -> int:
        """Number of bigrams."""
        return sum(map(len, self.bigrams.values()))

    def to_bytes(self, remarks: Sequence[str] = ()) -> bytes:
        """Returns the file.

        Args:
          remarks: Lines of text for its head.
        """
        lines = [f"# {line}" for remark in remarks for line in remark.splitlines()]
        lines.append(",".join(f"{name}={value}" for name, value in self.header.items()))
        for word, frequency in self.words.items():
            lines.append(f" word={word},f={frequency}")
            lines += [_shortcut_line(self.shortcuts[word])] if word in self.shortcuts else []
            lines += [bigram_line(*item) for item in self.bigrams.get(word, {}).items()]
        for typed in sorted(self.shortcuts.keys() - self.words.keys()):
            lines += [f" word={typed},f=1,not_a_word=true", _shortcut_line(self.shortcuts[typed])]
        return ("\n".join(lines) + "\n").encode()


def bigram_line(word: str, frequency: int) -> str:
    """Returns the line of a bigram, without a line feed."""
    return f"  bigram={word},f={frequency}"


def with_entries(words: WordList, entries: Iterable[tuple[str, str]]) -> WordList:
    """Returns a list with the entries of a personal dictionary.

    Args:
      words: The list.
      entries: Shortcut, or "", and word or text. Those that a list cannot hold are left out. A word
        that is listed keeps its f.
    """
    added: dict[str, int] = {}
    shortcuts: dict[str, str] = dict(words.shortcuts)
    for shortcut, text in entries:
        if shortcut and may_be_listed(shortcut) and not _SEPARATOR.search(text):
            shortcuts[shortcut] = text
        elif not shortcut and may_be_listed(text) and text not in words.words:
            added[text] = _PERSONAL
    return dataclasses.replace(words, words={**words.words, **added}, shortcuts=shortcuts)


def _shortcut_line(text: str) -> str:
    return f"  shortcut={text},f={_OFFERED}"


def read(path: pathlib.Path) -> WordList:
    """Reads a list.

    Raises:
      DataError: If the file cannot be read, or a line is not of the format. The message names the
        line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: is not UTF-8. Pass a {SUFFIX} word list.") from None
    try:
        return parse(text)
    except ValueError as error:
        raise DataError(f"{path}, {error}") from None


def parse(text: str) -> WordList:
    """Parses the text of a file.

    Raises:
      ValueError: If a line is not of the format. The message begins with its number.
    """
    header: dict[str, str] = {}
    words: dict[str, int] = {}
    bigrams: dict[str, dict[str, int]] = collections.defaultdict(dict)
    last = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#") or not line.strip():
            continue
        if not header:
            header = _header(line, number)
            continue
        match = _LINE.fullmatch(line.rstrip("\r"))
        if match is None:
            raise ValueError(f"line {number}: must be ` word=W,f=N` or `  bigram=W,f=N`.")
        kind, word = match["kind"], match["word"]
        fields = dict(item.split("=", 1) for item in match["rest"].split(",") if item)
        if kind == "shortcut" or fields.get("not_a_word") == "true":
            continue
        if not re.fullmatch(r"\d{1,3}", fields.get("f", "")) or int(fields["f"]) > MAX_FREQUENCY:
            raise ValueError(f"line {number}: `f` must be a whole number of 0 to {MAX_FREQUENCY}.")
        if kind == "word":
            last = word
            words[word] = int(fields["f"])
        elif not last:
            raise ValueError(f"line {number}: there is a bigram before the first word.")
        else:
            bigrams[last][word] = int(fields["f"])
    if not words:
        raise ValueError(
            "line 1: not a word list: the first line must be dictionary=..., then words."
        )
    return WordList(header, words, dict(bigrams))


def _header(line: str, number: int) -> dict[str, str]:
    fields = [item.partition("=") for item in line.strip().split(",")]
    if fields[0][0] != "dictionary" or not all(is_there for _, is_there, _ in fields):
        raise ValueError(f"line {number}: must be dictionary=main:LANGUAGE,locale=LANGUAGE,...")
    return {name: value for name, _, value in fields}
