"""Reads whole files into memory, plain or gzip, and parses the JSON in them."""

import gzip
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, cast

from tff_keyboard.data.sources.lines import GZIP_MAGIC, require_not_utf16, unreadable
from tff_keyboard.data.sources.messages import ParserState
from tff_keyboard.storage import errors, json_text

_CHUNK_BYTES = 1 << 16
# A gzip file that unpacks to so many bytes, and times its size, holds no messages.
_BOMB_BYTES, _BOMB_RATIO = 100_000_000, 200


def read_chunks(path: pathlib.Path, *, limit: int | None = None) -> Iterator[bytes]:
    """Yields the bytes of a file, unpacked if it is gzip, and at most the first `limit` bytes.

    Raises:
      DataError: If the file is missing, a folder, unreadable, UTF-16, or a damaged gzip, or a gzip
        that unpacks to far more than text does.
    """
    remaining_bytes = limit
    bytes_read = 0
    try:
        with path.open("rb") as raw:
            is_gzip = raw.read(2) == GZIP_MAGIC
            largest = max(_BOMB_BYTES, _BOMB_RATIO * raw.seek(0, os.SEEK_END))
            raw.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if is_gzip else raw
            is_first = True
            while remaining_bytes is None or remaining_bytes > 0:
                chunk = stream.read(
                    _CHUNK_BYTES if remaining_bytes is None else min(remaining_bytes, _CHUNK_BYTES)
                )
                if not chunk:
                    return
                bytes_read += len(chunk)
                if is_gzip and bytes_read > largest:
                    raise errors.DataError(
                        f"{path}: a gzip file that unpacks to more than {largest / 1e6:,.0f} MB, "
                        f"over {_BOMB_RATIO} times its size. Text does not shrink so much."
                    )
                if is_first:
                    require_not_utf16(path, chunk)
                is_first = False
                remaining_bytes = None if remaining_bytes is None else remaining_bytes - len(chunk)
                yield chunk
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise errors.DataError(
            f"{path}: the gzip file ends early or is damaged. Copy or download it again."
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None


def read_json(path: pathlib.Path, reading: ParserState | None = None) -> object:
    """Returns the JSON document of a UTF-8 file, plain or gzip.

    Args:
      path: The file.
      reading: For an export of a chat program; accepts and records the defects that these programs
        write (`json_text.parse`). Without it, the file is read strictly.

    Raises:
      DataError: If the file cannot be read, is empty, not UTF-8 or not valid JSON.
    """
    content = b"".join(read_chunks(path))
    if not content.strip():
        raise errors.DataError(f"{path}: the file is empty. Pass a file with messages.")
    repairs: list[json_text.Repair] = []
    try:
        document = json_text.parse(content, repairs=None if reading is None else repairs)
    except json_text.NotUtf8Error as error:
        raise errors.DataError(
            f"{path}:{error.line}: the line is not UTF-8. Convert the file (iconv -f LATIN1 -t "
            "UTF-8)."
        ) from None
    except json_text.InvalidJsonError as error:
        if error.line is None:
            raise errors.DataError(f"{path}: {error}. Export it again.") from None
        raise errors.DataError(
            f"{path}:{error.line}: the file is not valid JSON from here on. Export or copy it "
            "again."
        ) from None
    if reading is not None and repairs:
        reading.note_repairs(path, repairs)
    return document


def message_objects(
    path: pathlib.Path, entries: Iterable[object], reading: ParserState
) -> Iterator[dict[str, Any]]:
    """Yields the entries of a document that are JSON objects. Other entries are bad lines."""
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, dict):
            yield entry
        else:
            reading.bad_line(
                path, number, "not_an_object", "the message is not a JSON object. Remove it."
            )
