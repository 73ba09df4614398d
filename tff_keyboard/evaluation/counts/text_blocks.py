"""Reads a text file of any format for an evaluation, as blocks that count as clients."""

import gzip
import itertools
import os
import pathlib
import zlib
from collections.abc import Callable, Sequence

from tff_keyboard.data.sources import formats
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.storage.errors import DataError

Tokenize = Callable[[Sequence[str]], list[list[str]]]


def read_text(path: str | os.PathLike[str], tokenize: Tokenize, *, blocks: int = 50) -> TypedText:
    """Reads a text file, plain or .gz, with one message per line, as blocks of pseudo-clients.

    Uses only the text of a `user<TAB>text` file, a table or an exported chat. An interval needs
    independent parts, so the lines are cut into `blocks` >= 2 runs of equal length, and each counts
    as a client. Neighbouring lines stay together, because they depend on each other most. Lines
    without a word are left out.

    Raises:
      DataError: If the file cannot be read, is not UTF-8, or has fewer than two messages.
      ValueError: If `blocks` is out of range.
    """
    if blocks < 2:
        raise ValueError(f"`blocks` must be >= 2, got {blocks}: an interval needs at least two.")
    path = pathlib.Path(path)
    lines = _read_lines(path)
    messages = [words for words in tokenize(lines) if words]
    if len(messages) < 2:
        raise DataError(f"{path}: has {len(messages)} messages, but at least 2 are required.")
    count = min(blocks, len(messages))
    bounds = [len(messages) * block // count for block in range(count + 1)]
    return TypedText(
        name=path.name,
        clients=tuple(f"lines {a + 1}-{b}" for a, b in itertools.pairwise(bounds)),
        messages=tuple(messages[a:b] for a, b in itertools.pairwise(bounds)),
        pseudo_users=True,
    )


def _read_lines(path: pathlib.Path) -> list[str]:
    messages = formats.messages_of_file(path)
    if messages is not None:
        return [message.text for message in messages]
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a complete gzip file"
        raise DataError(f"{path}: cannot be read ({reason}).") from None
    lines = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise DataError(f"{path}:{number}: is not UTF-8. Convert the file first.") from None
    if all(line.count("\t") == 1 for line in lines if line):
        return [line.partition("\t")[2] for line in lines]
    return lines
