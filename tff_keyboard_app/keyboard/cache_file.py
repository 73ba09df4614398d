"""The file of a user's word cache, which only its owner can read.

The file has two lines: the format's name, and JSON with sorted keys, so that equal caches are equal
files. It is created with mode 0600 before anything is written, and replaces the old file
completely. Forgotten words are not in the new file. Blocks of the old file may remain on the disk,
which this program cannot prevent (encrypt the disk).
"""

import json
import os
import pathlib

from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage import files, json_text
from tff_keyboard.storage.errors import DataError

_FORMATS = "tff-keyboard word cache "
FORMAT = f"{_FORMATS}2"
# 21,750 words and as many pairs of 40 characters each, all escaped: more than `WordCache` with the
# default half life and floor can contain. The cache of a user takes about 30 kB.
MAX_BYTES = 24_000_000

_BROKEN = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError)


class DamagedCacheError(DataError):
    """A damaged file that was a word cache of this format."""


def save(cache: WordCache, path: str | os.PathLike[str]) -> None:
    """Writes the file atomically.

    Raises `ProgramError` if it cannot be written. An existing file is then unchanged.
    """
    content = {
        "half_life": cache.half_life,
        "floor": cache.floor,
        "words": dict(cache.words),
        "pairs": {first: dict(row) for first, row in cache.pairs.items()},
        "uses": dict(cache.uses),
        "kept": sorted(cache.exempt_words),
    }
    if cache.forms:  # without them, the file is one of the earlier versions
        content["forms"] = {word: dict(counts) for word, counts in cache.forms.items()}
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    data = f"{FORMAT}\n{text}\n".encode("utf-8", errors="surrogatepass")
    files.write_atomically(pathlib.Path(path), [data], mode=files.OWNER_ONLY)


def is_cache(path: str | os.PathLike[str]) -> bool:
    """Returns whether a file begins as a word cache of any version. False if it cannot be read."""
    try:
        with pathlib.Path(path).open("rb") as file:
            return file.read(len(_FORMATS)) == _FORMATS.encode()
    except OSError:
        return False


def load(path: str | os.PathLike[str]) -> WordCache:
    """Reads a file that `save` wrote.

    Raises:
      DataError: If it cannot be read, or is another kind of file.
      DamagedCacheError: If it is too large, damaged, or has content that no cache can have.
    """
    try:
        if not pathlib.Path(path).is_file() and pathlib.Path(path).exists():
            raise DataError(f"{path}: not a file. Choose another name for the word cache.")
        with pathlib.Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    first, _, text = data.partition(b"\n")
    if first != FORMAT.encode() and first.startswith(_FORMATS.encode()):
        raise DataError(
            f"{path}: another version wrote this word cache: its first line is not {FORMAT!r}. "
            "The file is unchanged. Choose another name for the word cache."
        )
    if data and first != FORMAT.encode():
        raise DataError(
            f"{path}: not a word cache: its first line is not {FORMAT!r}. The file is unchanged. "
            "Choose another name for the word cache."
        )
    try:
        if not data:
            raise ValueError("it is empty")
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
        content = json_text.parse(text.decode("utf-8", errors="surrogatepass"))
        cache = WordCache(content["half_life"], content["floor"])
        cache.restore(
            content["words"],
            content["pairs"],
            content["uses"],
            content["kept"],
            content.get("forms", {}),
        )
    except _BROKEN as error:
        reason = str(error) if type(error) is ValueError else "it is damaged"
        raise DamagedCacheError(f"{path}: not a complete word cache ({reason}).") from None
    return cache


def load_or_fresh(path: str | os.PathLike[str]) -> tuple[WordCache, str | None]:
    """Returns the cache in a file, or a new cache if the file is missing or damaged.

    Also returns one line that describes the damage, or None. The file does not change until the
    next `save`. Raises `DataError` if the file cannot be read, or was never a cache of this format,
    because then it must not be replaced.
    """
    if not os.path.lexists(path):
        return WordCache(), None
    try:
        return load(path), None
    except DamagedCacheError as error:
        return WordCache(), f"{error} An empty cache replaces it: the learned words are lost."
