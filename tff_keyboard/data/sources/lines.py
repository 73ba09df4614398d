"""Reads lines of a plain or gzip file one at a time, and reports over-long lines.

All defects of a text file are handled here: by an error that names the file and the line, or by a
count. Valid text is read in blocks. From the first invalid block on, the file is read line by line.
"""

import contextlib
import functools
import gzip
import io
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from tff_keyboard.data.sources.messages import ParserState
from tff_keyboard.storage import errors

MAX_LINE_BYTES = 1 << 20

GZIP_MAGIC = b"\x1f\x8b"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_REPORT_EVERY = 1000
_BLOCK_BYTES = 1 << 17


def read_lines(
    path: pathlib.Path, reading: ParserState, *, bytes_before: int = 0
) -> Iterator[tuple[int, str]]:
    """Yields `(line number from 1, text without its line end)`.

    The first bytes of the file determine whether it is gzip, not its name. Blank lines are skipped
    and counted. The memory does not grow with the length of a line.

    Args:
      path: The file.
      reading: Receives bad lines, counts and the position.
      bytes_before: Bytes of earlier inputs, added to the position.

    Raises:
      DataError: If the file is missing, a folder, unreadable, empty, UTF-16 or a damaged gzip; or,
        if bad lines are errors, a line is over 1 MiB, contains NUL or is not UTF-8.
    """
    if path.is_dir():
        raise unreadable(path, IsADirectoryError())
    number = 0
    for block in _sound_blocks(path, reading, bytes_before):
        if block is None:
            return
        for text in block:
            number += 1
            if text and not text.isspace():
                yield number, text
            else:
                reading.skip("blank_line")
    yield from _careful_lines(path, reading, bytes_before, after=number)


def unreadable(path: pathlib.Path, error: OSError) -> errors.DataError:
    """Returns the error for an input file that is missing, a folder, or cannot be read."""
    if isinstance(error, FileNotFoundError):
        return errors.DataError(f"{path}: there is no such file. Check the inputs of `prepare`.")
    if isinstance(error, IsADirectoryError):
        return errors.DataError(f"{path}: is a folder. Pass the path of a file in it.")
    return errors.DataError(f"{path}: cannot be read: {error.strerror or error}.")


def require_not_utf16(path: pathlib.Path, first: bytes) -> None:
    """Raises `DataError` if the first bytes of a file are the mark of UTF-16."""
    if first.startswith(_UTF16_MARKS):
        raise errors.DataError(
            f"{path}:1: the file is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8."
        )


def _sound_blocks(
    path: pathlib.Path, reading: ParserState, bytes_before: int
) -> Iterator[list[str] | None]:
    """Yields whole lines, block by block, as long as they are valid; None after the last one.

    If there is an error, the lines before it were yielded, and `_careful_lines` reports the error.
    """
    broken = (OSError, EOFError, zlib.error, UnicodeDecodeError)
    with contextlib.suppress(*broken), path.open("rb") as raw:
        first = raw.read(3)
        raw.seek(0)
        is_gzip = first.startswith(GZIP_MAGIC)
        if first.startswith(_UTF16_MARKS) or (path.suffix == ".gz" and not is_gzip):
            return
        stream: BinaryIO | gzip.GzipFile = gzip.GzipFile(fileobj=raw) if is_gzip else raw
        incomplete_line, is_first = b"", True
        while block := stream.read(_BLOCK_BYTES):
            if b"\0" in block or len(incomplete_line) > MAX_LINE_BYTES // 2:
                return
            complete_lines, end, after_last_end = (incomplete_line + block).rpartition(b"\n")
            incomplete_line = after_last_end
            if end:
                yield _decoded(complete_lines, is_first=is_first)
                is_first = False
            reading.on_position(bytes_before + raw.tell())
        if incomplete_line:
            yield _decoded(incomplete_line, is_first=is_first)
        if incomplete_line or not is_first:
            yield None


def _decoded(block: bytes, *, is_first: bool) -> list[str]:
    """Returns the lines of a block without its last line end."""
    if is_first:
        block = block.removeprefix(_UTF8_MARK)
    lines = block.decode("utf-8").split("\n")
    return [line.rstrip("\r") for line in lines] if b"\r" in block else lines


def _careful_lines(
    path: pathlib.Path, reading: ParserState, bytes_before: int, *, after: int
) -> Iterator[tuple[int, str]]:
    """Yields the lines of `read_lines` one at a time, after the first `after` valid lines."""
    number = 0
    try:
        with path.open("rb") as raw:
            first = raw.read(3)
            raw.seek(0)
            if not first:
                raise errors.DataError(f"{path}: the file is empty. Pass a file with messages.")
            require_not_utf16(path, first)
            stream: BinaryIO | gzip.GzipFile = raw
            if first.startswith(GZIP_MAGIC):
                stream = gzip.GzipFile(fileobj=raw)
            elif path.suffix == ".gz":
                raise errors.DataError(
                    f"{path}: the name ends in .gz, but the content is not gzip. Rename the file "
                    "or copy it again."
                )
            buffered = io.BufferedReader(stream, 1 << 16)  # type: ignore[arg-type]
            while True:
                line = buffered.readline(MAX_LINE_BYTES + 1)
                if not line:
                    break
                number += 1
                if number <= after:
                    continue
                if number % _REPORT_EVERY == 0:
                    reading.on_position(bytes_before + raw.tell())
                text = _decode(line, buffered, path, number, reading)
                if text is not None:
                    yield number, text
            reading.on_position(bytes_before + raw.tell())
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise errors.DataError(
            f"{path}:{number + 1}: the gzip file ends early or is damaged after line {number}. "
            "Copy or download it again."
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None
    if number == 0:
        raise errors.DataError(f"{path}: the file is empty. Pass a file with messages.")


def _decode(
    line: bytes, stream: io.BufferedReader, path: pathlib.Path, number: int, reading: ParserState
) -> str | None:
    """Returns the text of a line, or None if it is blank or (counted as) bad.

    `stream` is where the file continues. It is read up to the end of an over-long line.
    """
    bad = functools.partial(reading.bad_line, path, number)
    if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES)
        bad(
            "too_long",
            f"the line is longer than {MAX_LINE_BYTES} bytes, so it is probably not one message. "
            "Put each message on its own line.",
        )
        return None
    line = line.rstrip(b"\r\n")
    if number == 1:
        line = line.removeprefix(_UTF8_MARK)
    if b"\0" in line:
        bad(
            "nul",
            "the line has NUL bytes, so the file is binary, damaged or UTF-16. Remove them "
            "(tr -d '\\000') or convert it to UTF-8.",
        )
        return None
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        bad(
            "not_utf8",
            f"byte {error.start + 1} of the line is not UTF-8. Convert the file (iconv -f LATIN1 "
            "-t UTF-8).",
        )
        return None
    if not text.strip():
        reading.skip("blank_line")
        return None
    return text
