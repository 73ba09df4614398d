"""Reads and writes personal dictionaries: words and shortcuts that a person keeps in a keyboard.

A file is read by its content, not its name:

- **Gboard**: the archive of "Personal dictionary", "Export", with `dictionary.txt`: lines of
  `shortcut<TAB>word<TAB>locale`, each of which may be empty but the word, after lines with `#`.
- **SwiftKey**: the JSON of its account's page, `{"terms": [word, ...]}`. It has every string that
  was ever typed, also marks and numbers.
- **Android**: XML with elements that have an attribute `word` and perhaps `shortcut` and `locale`,
  as programs write it that save the user dictionary of the system (its columns have these names).
- **text**: a word in each line, or the lines of Gboard's file. A line that begins with `#` is a
  remark.

`write` writes Gboard's form, as text or as an archive. The archive was never tried with Gboard.

Sources: Android's `UserDictionary.Words`, https://developer.android.com/reference/android/provider;
the header of Gboard's files; https://github.com/futo-org/android-keyboard/issues/540 (SwiftKey).
"""

import dataclasses
import io
import pathlib
import re
import unicodedata
import xml.parsers.expat
import zipfile
import zlib
from collections.abc import Iterable, Iterator

from tff_keyboard.predictors.hybrid.word_cache import may_be_learnt
from tff_keyboard.predictors.tail_lexicon import may_be_listed
from tff_keyboard.storage import files, json_text
from tff_keyboard.storage.errors import DataError

MAX_BYTES = 20_000_000
MAX_ENTRIES = 50_000
LONGEST = 100  # characters of a word or of the text of a shortcut
_LONGEST_SHORTCUT = 30
_IN_ARCHIVE = "dictionary.txt"
_HEADER = (
    "# Gboard Dictionary version:1",
    "# Gboard Dictionary format:shortcut\tword\tlanguage_tag",
)
_LOCALE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*")
_FORMS = (
    "Expected the archive of Gboard, the JSON of SwiftKey, XML of Android's user dictionary, or "
    "text with a word in each line"
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of a personal dictionary.

    Attributes:
      word: A word with its capitals, or the text that stands for a shortcut, of several words.
      shortcut: What is typed for it; "" for none.
      language: Two or three letters, such as "en"; "" for all languages.
    """

    word: str
    shortcut: str = ""
    language: str = ""

    def is_of(self, *languages: str) -> bool:
        """Returns whether the entry belongs to one of the languages, or to all."""
        return self.language in ("", *languages)


@dataclasses.dataclass(frozen=True)
class Dictionary:
    """The entries of a file, without repetitions, in its order.

    Attributes:
      entries: The entries.
      skipped: Number of lines or terms that are no words: marks, numbers, text without a letter or
        with hidden characters, or longer than `LONGEST` characters.
    """

    entries: tuple[Entry, ...]
    skipped: int


def read(path: pathlib.Path) -> Dictionary:
    """Reads a personal dictionary.

    Raises:
      DataError: If the file cannot be read, is too large, or is none of the forms.
    """
    try:
        content = files.content(path, follow_link=True, max_bytes=MAX_BYTES)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    entries: dict[Entry, None] = {}
    skipped = 0
    for entry in _entries(path, content):
        if _is_fit(entry):
            entries[entry] = None
        else:
            skipped += 1
    if len(entries) > MAX_ENTRIES:
        raise DataError(
            f"{path}: a personal dictionary can have at most {MAX_ENTRIES:,} entries, got "
            f"{len(entries):,}."
        )
    if not entries:
        raise DataError(f"{path}: the file has no word. {_FORMS}.")
    return Dictionary(tuple(entries), skipped)


def entries_of(paths: Iterable[pathlib.Path]) -> list[Entry]:
    """Returns the entries of several dictionaries. Raises the errors of `read`."""
    return [entry for path in paths for entry in read(path).entries]


def write(entries: Iterable[Entry], path: pathlib.Path) -> None:
    """Writes entries as text, or as Gboard's archive if the name ends in `.zip`; mode 0600.

    Raises:
      ProgramError: If the file cannot be written. An existing file is then unchanged.
    """
    lines = [f"{one.shortcut}\t{one.word}\t{one.language}" for one in entries]
    text = "\n".join([*_HEADER, *lines, ""]).encode("utf-8")
    if path.suffix == ".zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            # A fixed date: equal words are equal files.
            archive.writestr(zipfile.ZipInfo(_IN_ARCHIVE), text, zipfile.ZIP_DEFLATED)
        text = buffer.getvalue()
    files.write_atomically(path, [text], mode=files.OWNER_ONLY)


def _entries(path: pathlib.Path, content: bytes) -> Iterator[Entry]:
    """Yields the entries of a file, whose first bytes determine its format."""
    if content.startswith(b"PK"):
        yield from _of_lines(path, _from_archive(path, content))
        return
    head = content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    if head == b"{":
        yield from _of_json(path, content)
    elif head == b"<":
        yield from _of_xml(path, content)
    else:
        yield from _of_lines(path, content)


def _from_archive(path: pathlib.Path, content: bytes) -> bytes:
    """Returns the word list in a zip archive of Gboard."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open(_IN_ARCHIVE) as file:
            text = file.read(MAX_BYTES + 1)
    except KeyError:
        raise DataError(f"{path}: the archive has no {_IN_ARCHIVE}. {_FORMS}.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError):
        raise DataError(f"{path}: the archive is damaged. Export it again.") from None
    if len(text) > MAX_BYTES:
        raise DataError(f"{path}: {_IN_ARCHIVE} has more than {MAX_BYTES:,} bytes.")
    return text


def _of_lines(path: pathlib.Path, content: bytes) -> Iterator[Entry]:
    """Yields the entries of a text file: a word a line, or shortcut, word and locale."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8. {_FORMS}.") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) > 3:
            raise DataError(
                f"{path}, line {number}: has {len(columns)} columns. A line is a word, or "
                "shortcut<TAB>word<TAB>locale."
            )
        if len(columns) == 1:
            yield Entry(columns[0].strip())
        else:
            yield _entry(columns[1], columns[0], columns[2] if len(columns) == 3 else "")


def _of_json(path: pathlib.Path, content: bytes) -> Iterator[Entry]:
    """Yields the words of SwiftKey's JSON. An entry that is not a string becomes ""."""
    try:
        document = json_text.parse(content)
    except ValueError as error:
        raise DataError(f"{path}: not JSON ({error}). {_FORMS}.") from None
    terms = document.get("terms") if isinstance(document, dict) else None
    if not isinstance(terms, list):
        raise DataError(f'{path}: the JSON has no list "terms", which SwiftKey writes.')
    for term in terms:
        yield Entry(unicodedata.normalize("NFC", term).strip() if isinstance(term, str) else "")


def _of_xml(path: pathlib.Path, content: bytes) -> Iterator[Entry]:
    """Yields the entries of an XML file: elements with the attribute `word`."""
    entries: list[Entry] = []

    def start(_: str, attributes: dict[str, str]) -> None:
        if (word := attributes.get("word")) is not None:
            shortcut, locale = attributes.get("shortcut", ""), attributes.get("locale", "")
            entries.append(_entry(word, shortcut, locale))

    def refuse(*_: object) -> None:  # an entity can be of any size
        raise DataError(f"{path}: XML with a document type or entities is not read.")

    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except DataError:  # `DataError` is a `ValueError`
        raise
    except (xml.parsers.expat.ExpatError, ValueError, LookupError):
        raise DataError(f"{path}: not XML. {_FORMS}.") from None
    yield from entries


def _entry(word: str, shortcut: str, locale: str) -> Entry:
    """Returns an entry in NFC, on one line, with the language of its locale."""
    # A file has a line for each entry, so a text of several lines becomes one.
    word = " ".join(unicodedata.normalize("NFC", word).split())
    shortcut = unicodedata.normalize("NFC", shortcut).strip()
    locale = locale.strip()
    language = re.split("[-_]", locale)[0].lower() if _LOCALE.fullmatch(locale) else ""
    return Entry(word, "" if shortcut == word else shortcut, language)


def _is_fit(entry: Entry) -> bool:
    """Returns whether a keyboard can offer an entry: a word, or the text of a shortcut."""
    words = entry.word.split()
    if not 0 < len(entry.word) <= LONGEST or not may_be_listed(*words):
        return False
    if entry.shortcut:
        return (
            len(entry.shortcut) <= _LONGEST_SHORTCUT
            and not entry.shortcut.startswith("#")  # a remark in a file
            and not any(character.isspace() for character in entry.shortcut)
            and may_be_listed(entry.shortcut)
        )
    return (
        len(words) == 1
        and may_be_learnt(entry.word)
        and any(character.isalpha() for character in entry.word)
    )
