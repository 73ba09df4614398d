"""A person's cache at rest: one file that only its owner can read.

Two lines: the format's name, and JSON with sorted keys, so that equal caches are equal files. The
file is created with mode 0600 before a byte is in it and replaces the old one whole. What was
forgotten is not in the new file; whether the disk still holds blocks of the old one is beyond this
program (encrypt the disk).
"""

import json
import os
import pathlib

from tff_keyboard.predictors.hybrid.word_cache import WordCache
from tff_keyboard.storage import files
from tff_keyboard.storage.errors import DataError

_FORMATS = "tff-keyboard word cache "
FORMAT = f"{_FORMATS}2"
# 21,750 words and as many pairs of 40 characters each, all of them escaped: more than `WordCache`
# of the default half life and floor can hold. A person's is some 30 kB.
MOST_BYTES = 24_000_000

_BROKEN = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)


class DamagedCacheError(DataError):
    """A file that was a word cache of this format, and is whole no longer."""


def save(cache: WordCache, path: str | os.PathLike[str]) -> None:
    """Writes the file, whole or not at all.

    Raises `ProgramError` if it cannot be written; what was there is still there.
    """
    content = {
        "half_life": cache.half_life,
        "floor": cache.floor,
        "words": dict(cache.words),
        "pairs": {first: dict(row) for first, row in cache.pairs.items()},
        "uses": dict(cache.uses),
        "kept": sorted(cache.kept),
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    data = f"{FORMAT}\n{text}\n".encode("utf-8", errors="surrogatepass")
    files.write_atomically(pathlib.Path(path), [data], mode=files.OWNER_ONLY)


def load(path: str | os.PathLike[str]) -> WordCache:
    """Reads what `save` wrote.

    Raises `DataError` if it cannot be read, or is something else; `DamagedCacheError` if it is too
    large, damaged, or holds what no cache can.
    """
    try:
        if not pathlib.Path(path).is_file() and pathlib.Path(path).exists():
            raise DataError(f"{path}: not a file. Give another name for the word cache.")
        with pathlib.Path(path).open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}).") from None
    first, _, text = data.partition(b"\n")
    if first != FORMAT.encode() and first.startswith(_FORMATS.encode()):
        raise DataError(
            f"{path}: a word cache that another version wrote, its first line is not {FORMAT!r}. "
            "It stays as it is: give another name for the word cache."
        )
    if data and first != FORMAT.encode():
        raise DataError(
            f"{path}: not a word cache, its first line is not {FORMAT!r}. It stays as it is: give "
            "another name for the word cache."
        )
    try:
        if not data:
            raise ValueError("it is empty")
        if len(data) > MOST_BYTES:
            raise ValueError(f"it is larger than {MOST_BYTES:,} bytes")
        content = json.loads(text.decode("utf-8", errors="surrogatepass"))
        cache = WordCache(content["half_life"], content["floor"])
        cache.restore(content["words"], content["pairs"], content["uses"], content["kept"])
    except _BROKEN as error:
        reason = str(error) if type(error) is ValueError else "it is damaged"
        raise DamagedCacheError(f"{path}: not a whole word cache ({reason}).") from None
    return cache


def load_or_fresh(path: str | os.PathLike[str]) -> tuple[WordCache, str | None]:
    """The cache of a file, a new one where there is none or a damaged one.

    Beside it, one line that says what is wrong with the file; None where nothing is. The file stays
    as it is until the next `save`. Raises `DataError` if it cannot be read, or never was a cache of
    this format: nothing may replace it.
    """
    if not os.path.lexists(path):
        return WordCache(), None
    try:
        return load(path), None
    except DamagedCacheError as error:
        return WordCache(), f"{error} A fresh one takes its place: what was learnt is lost."
