"""Reads messages from JSON lines (one object per line), and from a JSON array of such objects."""

import functools
import itertools
import pathlib
from collections.abc import Iterable, Iterator

from tff_keyboard.data.sources import json_documents, lines
from tff_keyboard.data.sources.messages import ParserState, Typed
from tff_keyboard.data.sources.tables import columns
from tff_keyboard.data.sources.tables.columns import ColumnOptions, Columns
from tff_keyboard.storage import json_text


def read_messages(
    path: pathlib.Path, reading: ParserState, options: ColumnOptions, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of a UTF-8 file of JSON lines, or of one JSON array; plain or gzip.

    Columns are keys of the objects; `a.b` names a key of an inner object. They are guessed from the
    first object. An array is read into memory, and its rows are numbered by position. Raises the
    errors of `lines.read_lines` and `columns.choose_columns`. If bad lines are errors, also raises
    `DataError` for a line that is not a JSON object or lacks a client or a text.
    """
    numbered = lines.read_lines(path, reading, bytes_before=bytes_before)
    first = next(numbered, None)
    if first is None:
        return
    objects: Iterable[tuple[int, object]]
    if first[1].lstrip().startswith("["):
        document = json_documents.read_json(path)
        objects = enumerate(document if isinstance(document, list) else [document], 1)
        reading.on_position(bytes_before + path.stat().st_size)
    else:
        objects = _parse_lines(path, itertools.chain([first], numbered), reading)
    table: Columns | None = None
    for number, row in objects:
        bad = functools.partial(reading.bad_line, path, number)
        if not isinstance(row, dict):
            bad(
                "not_an_object",
                "the entry is not a JSON object; it should read "
                '{"client": "...", "text": "..."}, with keys of your choice.',
            )
            continue
        if table is None:
            table = _table(row, options, f"{path}:{number}")
            reading.note_columns(table.description)
        time = None if table.time is None else columns.field_of(row, table.time)
        message = table.message(
            columns.field_of(row, table.client), columns.field_of(row, table.text), time, bad
        )
        if message is not None:
            yield message


def _parse_lines(
    path: pathlib.Path, numbered: Iterable[tuple[int, str]], reading: ParserState
) -> Iterator[tuple[int, object]]:
    """Yields `(line number, JSON value)`. Reports a line that is not JSON as bad."""
    for number, line in numbered:
        try:
            yield number, json_text.parse(line)
        except json_text.InvalidJsonError:
            reading.bad_line(
                path,
                number,
                "not_json",
                "the line is not valid JSON. Put one whole object on each line (jq -c . FILE).",
            )


def _table(row: dict[str, object], options: ColumnOptions, origin: str) -> Columns:
    """Returns the keys of client, text and time, given the first object."""
    names = list(row)
    for name in options:
        if name and name not in row and columns.field_of(row, name) is not None:
            names.append(name)  # a key inside an object
    indexes = columns.choose_columns(names, options, origin)
    keys = [None if i is None else names[i] for i in (indexes.client, indexes.text, indexes.time)]  # type: ignore[index]
    return Columns(keys[0] or "", keys[1] or "", keys[2], indexes.description)
