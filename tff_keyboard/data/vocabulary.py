"""Words and ids. The special ids are defined only here.

Rows 0 to 3 of every table are special: padding, beginning and end of a message, and one row for all
words that are not in the vocabulary. V includes them: V = 10,000 means a table of 10,000 rows,
9,996 of them words.

Plain Python, so that a phone runtime can import it.
"""

import collections
import dataclasses
import hashlib
import json
import os
import pathlib
import re
from collections.abc import Iterable, Mapping

from tff_keyboard.storage import errors, files, json_text

PAD = 0
BOS = 1
EOS = 2
OOV = 3
SPECIAL_IDS = (PAD, BOS, EOS, OOV)
NUM_SPECIAL = len(SPECIAL_IDS)
SPECIAL_WORDS = ("<pad>", "<bos>", "<eos>", "<oov>")

MODES = ("words", "whitespace")
LANGUAGES = ("en", "de", "tr", "es", "nl", "pt")
RULES_VERSION = 1

_FORMAT = "# tff-keyboard vocabulary 1"
_MASK = re.compile(r"<[^<>]*>")
_SEPARATOR = re.compile(r"[\x00\t-\r \x85]")  # a word is on one line and contains no blank


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalisationRules:
    """How text becomes tokens. Saved with the vocabulary, applied by `data.text`.

    >>> NormalisationRules(mode="whitespace", lowercase=False).as_json()
    {'mode': 'whitespace', 'lowercase': False, 'version': 1}

    Attributes:
      mode: "words": NFKC, straight apostrophes, and words, numbers and emoji without punctuation.
        "whitespace": the text is already tokenised, and is only split.
      lowercase: Whether tokens are lower case.
      language: Language of the text, one of `LANGUAGES`. It determines lower case
        (`data/text/casing.py`) and the behaviour of a keyboard. Files omit "en".
      version: Incremented when the rules change, so that an old vocabulary is not used with tokens
        of newer rules.
    """

    mode: str = "words"
    lowercase: bool = True
    language: str = "en"
    version: int = RULES_VERSION

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"`mode` must be one of {', '.join(MODES)}, got {self.mode!r}.")
        if self.language not in LANGUAGES:
            raise ValueError(
                f"`language` must be one of {', '.join(LANGUAGES)}, got {self.language!r}."
            )
        if self.version != RULES_VERSION:
            raise ValueError(
                f"Tokenisation rules version {self.version} is not supported (this is version "
                f"{RULES_VERSION}). Run `prepare` again, or use the release that wrote it."
            )

    def as_json(self) -> dict[str, object]:
        """Returns the rules as they are written to files."""
        content = dataclasses.asdict(self)
        if self.language == "en":
            del content["language"]
        return content


def is_mask(word: str) -> bool:
    """Checks if `word` is a placeholder such as `<#>`, `<URL>`, `<unk>`, which is always OOV.

    >>> is_mask("<url>"), is_mask("<3"), is_mask("url")
    (True, False, False)
    """
    return _MASK.fullmatch(word) is not None


def may_be_row(word: str) -> bool:
    """Checks if a vocabulary can contain a word: not empty, without a blank, and not a mask.

    >>> may_be_row("york"), may_be_row("new york"), may_be_row("<url>")
    (True, False, False)
    """
    return bool(word) and not is_mask(word) and not _SEPARATOR.search(word)


class Vocabulary:
    """An immutable two-way table of words and ids.

    >>> vocabulary = Vocabulary.from_counts(
    ...     {"hi": 3, "there": 1, "<url>": 9}, size=6, rules=NormalisationRules())
    >>> vocabulary.words
    ('<pad>', '<bos>', '<eos>', '<oov>', 'hi', 'there')
    >>> vocabulary.encode(["hi", "you", "<url>", "<bos>"])
    [4, 3, 3, 3]

    Attributes:
      words: V entries; row i has id i; rows 0 to 3 are `SPECIAL_WORDS`.
      rules: How text becomes the words of this table.
    """

    def __init__(self, words: Iterable[str], rules: NormalisationRules):
        """Builds a vocabulary from all rows, beginning with the four special ones.

        Args:
          words: The rows.
          rules: How text becomes these words.

        Raises:
          ValueError: If a row is missing, repeated, blank or a mask.
        """
        self.words = tuple(words)
        self.rules = rules
        if self.words[:NUM_SPECIAL] != SPECIAL_WORDS:
            raise ValueError(f"The first rows of a vocabulary must be {', '.join(SPECIAL_WORDS)}.")
        ordinary = self.words[NUM_SPECIAL:]
        for row, word in enumerate(ordinary, start=NUM_SPECIAL):
            if not may_be_row(word):
                raise ValueError(
                    f"Row {row} of the vocabulary is empty, contains a blank, or is a mask."
                )
        # "<bos>" is not in this index, so typed text never gets a special id.
        self._ids = {word: row for row, word in enumerate(ordinary, start=NUM_SPECIAL)}
        if len(self._ids) != len(ordinary):
            word, times = collections.Counter(ordinary).most_common(1)[0]
            raise ValueError(f"Row {self._ids[word]} of the vocabulary occurs {times} times.")

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.words == other.words and self.rules == other.rules

    def __hash__(self) -> int:
        return hash((self.words, self.rules))

    def id_of(self, word: str) -> int:
        """Returns the id of a normalised word; `OOV` if it is not in the table."""
        return self._ids.get(word, OOV)

    def encode(self, words: Iterable[str]) -> list[int]:
        """Returns the ids of normalised words, without BOS and EOS."""
        ids = self._ids
        return [ids.get(word, OOV) for word in words]

    @property
    def fingerprint(self) -> str:
        """SHA-256 in hex over the rules and all rows. Equal tables have equal fingerprints."""
        digest = hashlib.sha256(_rules_json(self.rules).encode())
        for word in self.words:
            digest.update(b"\n" + word.encode("utf-8"))
        return digest.hexdigest()

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], size: int, rules: NormalisationRules
    ) -> "Vocabulary":
        """Builds a vocabulary of the `size - 4` most frequent words. Masks are left out.

        Ties are in alphabetical order. With fewer distinct words the table is shorter than `size`,
        because rows without training data are useless.

        Args:
          counts: Word -> count over train users.
          size: V >= 5, including the special rows.
          rules: How text becomes these words.

        Raises:
          ValueError: If `size` is too small, or no word is left.
        """
        if size <= NUM_SPECIAL:
            raise ValueError(
                f"`size` must be > {NUM_SPECIAL}, as it counts the special rows; got {size}."
            )
        ranked = sorted((-count, word) for word, count in counts.items() if not is_mask(word))
        selected = [word for _, word in ranked[: size - NUM_SPECIAL]]
        if not selected:
            raise ValueError("There are no words to build a vocabulary from.")
        return cls((*SPECIAL_WORDS, *selected), rules)

    def to_bytes(self) -> bytes:
        """Returns the file that `load` reads: four header lines, then one word per line."""
        header = [
            _FORMAT,
            f"# rules: {_rules_json(self.rules)}",
            f"# size: {len(self)}",
            f"# fingerprint: {self.fingerprint}",
        ]
        return ("\n".join([*header, *self.words]) + "\n").encode()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes `to_bytes` to a file atomically. Raises `ProgramError` if that fails."""
        files.write_atomically(pathlib.Path(path), [self.to_bytes()])

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Vocabulary":
        """Reads a file that `save` wrote, and checks its size, rows and fingerprint.

        Raises `DataError` if it is missing, not a vocabulary, incomplete, or modified.
        """
        source = pathlib.Path(path)
        try:
            # Not `splitlines`: only a line feed ends a row.
            lines = files.content(source, follow_link=True).decode("utf-8").split("\n")
        except FileNotFoundError:
            raise errors.DataError(f"{source}: there is no vocabulary file.") from None
        except (OSError, UnicodeDecodeError) as error:
            raise errors.DataError(
                f"{source}: cannot be read as a vocabulary file ({type(error).__name__})."
            ) from None
        try:
            if lines[0] != _FORMAT or lines[-1] != "":
                raise ValueError("The first line is wrong, or the last line is incomplete.")
            rules = NormalisationRules(**json_text.parse(_header(lines[1], "rules")))
            size = int(_header(lines[2], "size"))
            fingerprint = _header(lines[3], "fingerprint")
            vocabulary = cls(lines[4:-1], rules)
            if len(vocabulary) != size or vocabulary.fingerprint != fingerprint:
                raise ValueError("Size or fingerprint differ from the header.")
        except (ValueError, TypeError, IndexError) as error:
            raise errors.DataError(
                f"{source}: not a complete vocabulary file ({errors.in_one_line(error)}). Run "
                "`prepare` again."
            ) from None
        return vocabulary


def _rules_json(rules: NormalisationRules) -> str:
    return json.dumps(rules.as_json(), sort_keys=True)


def _header(line: str, name: str) -> str:
    prefix = f"# {name}: "
    if not line.startswith(prefix):
        raise ValueError(f"The header has no `{name}`.")
    return line[len(prefix) :]
