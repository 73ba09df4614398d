"""The formats of input files: their list, their detection, and their readers."""

import dataclasses
import itertools
import pathlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence

from tff_keyboard.config.sections.data_config import DataConfig, Source
from tff_keyboard.data.sources import json_documents
from tff_keyboard.data.sources.exports import (
    discord,
    messenger,
    slack,
    sms_backup,
    telegram,
    whatsapp,
)
from tff_keyboard.data.sources.messages import Message, ParserState, Typed
from tff_keyboard.data.sources.tables import csv_files, json_lines, parquet_files
from tff_keyboard.data.sources.tables.columns import ColumnOptions
from tff_keyboard.storage import errors, json_text

_HEAD_BYTES = 1 << 16
TABLES = {
    "csv": csv_files.read_messages,
    "jsonl": json_lines.read_messages,
    "parquet": parquet_files.read_messages,
}
EXPORTS: dict[str, Callable[..., Iterator[Typed]]] = {
    "whatsapp": whatsapp.read_messages,
    "telegram": telegram.read_messages,
    "sms_backup": sms_backup.read_messages,
    "discord": discord.read_messages,
    "messenger": messenger.read_messages,
    "slack": slack.read_messages,
}
# Formats that may be given as a folder -> the files to read in it, tried in this order.
_FILES_INSIDE: dict[Source, Callable[[pathlib.Path], list[pathlib.Path]]] = {
    "slack": slack.export_files,
    "telegram": telegram.export_files,
    "messenger": messenger.export_files,
    "discord": discord.package_files,
    "whatsapp": whatsapp.export_files,
    "parquet": parquet_files.dataset_files,
}
READ_HERE = (*TABLES, *EXPORTS, "auto")  # values of `data.source` that `read_messages` accepts
# Extensions of unsupported formats, and the way out.
_REFUSED = {
    ".zip": "is a zip archive. Unpack it, and pass the file or folder in it",
    ".xlsx": "is a spreadsheet. Save it as CSV in UTF-8",
    ".xls": "is a spreadsheet. Save it as CSV in UTF-8",
    ".ods": "is a spreadsheet. Save it as CSV in UTF-8",
    ".html": "is a web page. Export the chat again as JSON or text",
    ".htm": "is a web page. Export the chat again as JSON or text",
    ".pdf": "is a PDF. Export the messages as text, CSV or JSON",
    ".docx": "is a document. Save the messages as text, CSV or JSON",
    ".zst": "is compressed with zstd. Unpack it: unzstd",
    ".bz2": "is compressed with bzip2. Unpack it: bunzip2",
    ".xz": "is compressed with xz. Unpack it: unxz",
}


@dataclasses.dataclass(frozen=True)
class _Head:
    """The beginning of a file as text; "" if it cannot be read, which its reader reports."""

    text: str

    @classmethod
    def of(cls, path: pathlib.Path) -> "_Head":
        try:
            content = b"".join(json_documents.read_chunks(path, limit=_HEAD_BYTES))
        except errors.DataError:
            return cls("")
        return cls(content.decode("utf-8-sig", "replace").lstrip())

    def has(self, *keys: str) -> bool:
        """Checks if all `keys` are keys of JSON objects in the text."""
        return all(re.search(rf'"{key}"\s*:', self.text) for key in keys)


def format_of(path: pathlib.Path) -> Source:
    """Returns the format of an input by its extension and beginning; "tsv" if unknown.

    Raises:
      DataError: If the extension belongs to an unsupported file, such as a zip archive.
    """
    if path.is_dir():
        formats = (name for name, files in _FILES_INSIDE.items() if files(path))
        return next(formats, "text")
    name = path.name.lower().removesuffix(".gz")
    ending = pathlib.PurePath(name).suffix
    if ending in _REFUSED:
        raise errors.DataError(f"{path}: {_REFUSED[ending]}.")
    if ending == ".csv":
        return "discord" if _Head.of(path).text.startswith(discord.TABLE_HEADER) else "csv"
    if ending in (".parquet", ".pq"):
        return "parquet"
    if ending in (".jsonl", ".ndjson", ".json"):
        return _json_format(_Head.of(path))
    if ending == ".xml":
        return "sms_backup"
    head = _Head.of(path).text
    lines = head.split("\n", 5)[:5]
    if ending == ".txt" and any(map(whatsapp.is_beginning, lines)):
        return "whatsapp"
    first = lines[0].rstrip("\r")
    is_quoted = first.startswith('"') and '"\t' in first
    is_table = first.count("\t") != 1 and csv_files.is_header(first)
    return "csv" if is_quoted or is_table else "tsv"


def _json_format(head: _Head) -> Source:
    """Returns the chat program whose export begins like this, or "jsonl"."""
    if head.text.startswith("["):
        if head.has("Contents", "Timestamp"):
            return "discord"
        return "slack" if head.has("ts", "type") and not head.has("body") else "jsonl"
    try:
        first = json_text.parse(head.text.partition("\n")[0])
    except ValueError:
        first = None
    if isinstance(first, dict) and not {"messages", "chats"} & first.keys():
        return "jsonl"
    if head.has("messages", "participants") or head.has("messages", "sender_name"):
        return "messenger"
    if head.has("messages", "channel") or head.has("guild", "channel"):
        return "discord"
    if head.has("messages", "type") or head.has("chats") or head.has("personal_information"):
        return "telegram"
    return "jsonl"


def common_format(paths: Sequence[pathlib.Path], *, has_columns: bool = False) -> Source:
    """Returns the format of all `paths`, or "auto" if they have several.

    Args:
      paths: The inputs.
      has_columns: Whether the user named columns; then TSV is read by columns too.

    Raises:
      DataError: If a format is unsupported, or a folder or a TSV file is mixed with other formats.
    """
    paths_by_format = {format_of(path): path for path in paths}
    if has_columns and "tsv" in paths_by_format:
        paths_by_format["csv"] = paths_by_format.pop("tsv")
    if len(paths_by_format) == 1:
        return next(iter(paths_by_format))
    for name in paths_by_format.keys() - set(READ_HERE):
        raise errors.DataError(
            f"{paths_by_format[name]}: has the format {name!r}, and the other inputs do not. "
            "Pass inputs of one format, or convert them to CSV."
        )
    return "auto"


def input_files(source: str, paths: Sequence[pathlib.Path]) -> tuple[pathlib.Path, ...]:
    """Returns the files to read, in order. Replaces folders of exports by the files in them.

    Raises:
      DataError: If a folder contains no files of the export.
    """
    inputs: list[pathlib.Path] = []
    for path in paths:
        kind = format_of(path) if source == "auto" else source
        inside = next((files for name, files in _FILES_INSIDE.items() if name == kind), None)
        if inside is None or not path.is_dir():
            inputs.append(path)
            continue
        files = inside(path)
        if not files:
            raise errors.DataError(
                f"{path}: the folder has no files of a {source} export. Pass the unpacked folder."
            )
        inputs += files
    return tuple(inputs)


def messages_of_file(path: pathlib.Path) -> Iterator[Message] | None:
    """Returns the messages of one table or exported chat; None if `path` is plain text or TSV.

    Raises:
      DataError: If the format is unsupported. The iterator raises the errors of the format's
        reader.
    """
    source = format_of(path)
    if source not in READ_HERE:
        return None
    config = DataConfig(source=source, input=str(path))
    return read_messages(config, input_files(source, (path,)), ParserState())


def read_messages(
    config: DataConfig, files: Sequence[pathlib.Path], reading: ParserState
) -> Iterator[Message]:
    """Yields the messages of all files, each in its format, sorted by time if it is known."""
    options = ColumnOptions(config.client_column, config.text_column, config.time_column)
    typed = itertools.chain.from_iterable(_each_file(config.source, files, reading, options))
    if config.time_column or config.source not in TABLES:
        yield from _by_time(typed)
    else:
        for _, user, text in typed:
            yield Message(user, text)


def _each_file(
    source: str,
    files: Sequence[pathlib.Path],
    reading: ParserState,
    options: ColumnOptions,
) -> Iterator[Iterator[Typed]]:
    """Yields the messages of each file, read by `source` or by the format that it has."""
    bytes_before = 0
    for path in files:
        name = format_of(path) if source == "auto" else source
        if name in TABLES:
            rows = TABLES[name](path, reading, options, bytes_before=bytes_before)
            yield _without_deleted(rows, reading)
        else:
            yield EXPORTS[name](path, reading, bytes_before=bytes_before)
        bytes_before += path.stat().st_size


def _without_deleted(rows: Iterator[Typed], reading: ParserState) -> Iterator[Typed]:
    """Skips and counts deleted posts and users of Reddit, which would become one large client."""
    for row in rows:
        if row.user == "[deleted]" or row.text in ("[deleted]", "[removed]"):
            reading.skip("deleted")
        else:
            yield row


def _by_time(typed: Iterator[Typed]) -> Iterator[Message]:
    """Yields the messages from the oldest to the newest. Equal times keep their order.

    Memory does not grow with their number: they are kept in an unnamed temporary SQLite database,
    which is removed when it is closed.
    """
    connection = sqlite3.connect("")
    try:
        connection.executescript(
            """
            PRAGMA journal_mode = OFF;
            PRAGMA synchronous = OFF;
            CREATE TABLE typed (time REAL, user TEXT, text TEXT);
            """
        )
        connection.executemany("INSERT INTO typed VALUES (?, ?, ?)", typed)
        for user, text in connection.execute("SELECT user, text FROM typed ORDER BY time, rowid"):
            yield Message(user, text)
    finally:
        connection.close()
