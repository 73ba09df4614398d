"""Reads messages from CSV files, and from the quoted TSV that spreadsheets write."""

import csv
import functools
import itertools
import pathlib
import re
from collections.abc import Iterator

from tff_keyboard.data.sources import lines
from tff_keyboard.data.sources.messages import ParserState, Typed
from tff_keyboard.data.sources.tables import columns
from tff_keyboard.data.sources.tables.columns import ColumnOptions, Columns
from tff_keyboard.storage import errors

_SEPARATORS = ",;\t|"
_POSITIONS = (
    "if the first line has no names, count the columns from 1 (--client-column=1 --text-column=2)"
)
QUOTED = (
    "the client's name is in quotation marks, as spreadsheets write it, but the first line is not. "
    "Save the sheet as CSV, or remove the quotation marks."
)
_SEPARATOR_LINE = re.compile(r"sep=(.)\Z", re.IGNORECASE)  # a line that Excel writes and reads


def read_messages(
    path: pathlib.Path, reading: ParserState, options: ColumnOptions, *, bytes_before: int = 0
) -> Iterator[Typed]:
    """Yields the messages of a UTF-8 CSV file, plain or gzip.

    The first line names the columns, unless `options` gives positions. The separator is the one of
    comma, semicolon, tab and bar with which that line contains the columns. A row may span several
    lines, which are joined to one. Raises the errors of `lines.read_lines` and
    `columns.choose_columns`. If bad lines are errors, also raises `DataError` for a row with
    another number of columns, without a client or a text, or with invalid quotes.
    """
    numbered = lines.read_lines(path, reading, bytes_before=bytes_before)
    first = next(numbered, None)
    separator = ""
    if first is not None and (separator_line := _SEPARATOR_LINE.match(first[1].strip('"'))):
        separator = separator_line[1]
        first = next(numbered, None)
    if first is None:
        return
    separator = separator or _separator(first[1], options)
    source = _Lines(itertools.chain([first], numbered))
    # TSV corpora do not quote fields, and contain stray quotation marks. Spreadsheets do quote.
    is_quoted = separator != "\t" or first[1].startswith('"')
    quoting = csv.QUOTE_MINIMAL if is_quoted else csv.QUOTE_NONE
    rows = csv.reader(source, delimiter=separator, strict=True, quoting=quoting)
    table: Columns | None = None
    num_columns = 0
    while True:
        source.first = 0
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error:
            reading.bad_line(
                path,
                source.first or source.number,
                "quotes",
                "the row is not valid CSV: a quotation mark is not closed, or not doubled inside "
                'a field (""), or a field is longer than 131,072 characters.',
            )
            continue
        if table is None:
            num_columns = len(row)
            table = _table(row, options, f"{path}:{source.first}")
            reading.note_columns(table.description)
            if not options.are_positions:
                reading.skip("header")
                continue
        bad = functools.partial(reading.bad_line, path, source.first)
        if len(row) != num_columns:
            bad(
                "columns",
                f"the row has {len(row)} columns, but the first row has {num_columns}. Put "
                "fields that contain the separator into quotation marks.",
            )
            continue
        client = row[table.client]  # type: ignore[index]
        if not is_quoted and is_in_quotes(client):
            bad("quoted", QUOTED)
            continue
        time = None if table.time is None else row[table.time]  # type: ignore[index]
        message = table.message(client, row[table.text], time, bad)  # type: ignore[index]
        if message is not None:
            yield message


def is_header(line: str) -> bool:
    """Checks if a line contains column names that would be guessed as client and text.

    >>> is_header("id;author;body"), is_header("anna,hello")
    (True, False)
    """
    return any(_is_table(line, separator, ColumnOptions()) for separator in _SEPARATORS)


def is_in_quotes(client: str) -> bool:
    """Checks if a client's name is quoted, as spreadsheets do."""
    return len(client) > 1 and client[0] == client[-1] == '"'


class _Lines:
    """An iterator of lines for `csv.reader`, which requests all lines of a row."""

    def __init__(self, numbered: Iterator[tuple[int, str]]):
        self._numbered = numbered
        self.first = 0  # number of the row's first line, if set to 0 before the row
        self.number = 0  # number of the last line

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        self.number, text = next(self._numbered)
        self.first = self.first or self.number
        return text + "\n"


def _table(row: list[str], options: ColumnOptions, origin: str) -> Columns:
    """Returns the positions of the columns, from the first row or from `options`."""
    if not options.are_positions:
        return columns.choose_columns(row, options, origin, _POSITIONS)
    indexes = [int(text) - 1 for text in (options.client, options.text)]
    if options.time:
        if not options.time.isdecimal():
            raise errors.DataError(
                f"{origin}: --time-column = {options.time!r} must be a number, because the other "
                "columns are numbers."
            )
        indexes.append(int(options.time) - 1)
    if not all(0 <= index < len(row) for index in indexes):
        raise errors.DataError(
            f"{origin}: the row has {len(row)} columns. Count --client-column, --text-column and "
            f"--time-column from 1 to {len(row)}."
        )
    if indexes[0] == indexes[1]:
        raise errors.DataError(f"{origin}: --client-column and --text-column are the same column.")
    said = columns.description(options.client, options.text, options.time or None, options)
    return Columns(indexes[0], indexes[1], indexes[2] if options.time else None, said)


def _separator(line: str, options: ColumnOptions) -> str:
    """Returns the separator with which the first line has the wanted, or the most, columns."""
    for separator in _SEPARATORS:
        if _is_table(line, separator, options):
            return separator
    return max(_SEPARATORS, key=line.count)


def _is_table(line: str, separator: str, options: ColumnOptions) -> bool:
    """Checks if a line, split at `separator`, is a header with the columns of messages."""
    try:
        (names,) = csv.reader([line], delimiter=separator)
        _table(names, options, "")
    except (csv.Error, ValueError, errors.DataError):
        return False
    return True
