"""Reads TFF's own Stack Overflow and Shakespeare client data from the files on disk.

TFF downloads them as `stackoverflow.sqlite.lzma` and `shakespeare.sqlite.lzma` and unpacks them to
`~/.tff`. Both have the format of `tff.simulation.datasets.SqlClientData`. Parse specifications:
`stackoverflow.py` and `shakespeare.py` in `tensorflow_federated/python/simulation/datasets`, TFF
0.87.

Their splits are mapped to populations such that held-out users stay held out:

 file | split | becomes |
---|---|---|
 Stack Overflow | train | train or validation, by hash of the user |
 | heldout (other users) | held_out |
 | test (train users, later) | train_later, or validation |
 Shakespeare | train | any population, by hash of the user |
 | test (same users, later) | train_later for train users, else as above |
"""

import dataclasses
import pathlib
import sqlite3
from collections.abc import Iterator

from tff_keyboard.data.sources import messages, split
from tff_keyboard.data.sources.messages import Message, ParserState
from tff_keyboard.storage import errors

_REPORT_EVERY = 1000
_SQLITE_MAGIC = b"SQLite format 3\0"
_LZMA_MAGIC = b"\xfd7zXZ"
# Python decodes SQLite's message, which may quote damaged bytes of the file.
_SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


@dataclasses.dataclass(frozen=True)
class Format:
    """The layout of one of TFF's datasets."""

    feature: str  # name of the string feature with the text
    splits: tuple[str, ...]  # names of the splits in reading order (by time)
    later_splits: tuple[str, ...]  # splits with later messages of train users
    held_out_splits: tuple[str, ...] = ()  # splits of users that are in no other split
    line_is_message: bool = False  # whether each line of the feature is a message


FORMATS = {
    "stackoverflow": Format("tokens", ("train", "heldout", "test"), ("test",), ("heldout",)),
    "shakespeare": Format("snippets", ("train", "test"), ("test",), line_is_message=True),
}


def read_messages(
    path: pathlib.Path, layout: Format, reading: ParserState, *, max_users: int = 0, seed: int = 0
) -> Iterator[Message]:
    """Yields all messages, split by split, client by client.

    Args:
      path: The file.
      layout: One of `FORMATS`.
      reading: Receives bad lines (examples without the feature, by row) and the position in
        examples.
      max_users: Number of users to read, chosen by hash; 0 means all.
      seed: Seed of that choice.

    Raises:
      DataError: If the file is missing, compressed, not SQLite, of another layout, or empty.
    """
    _check_file(path)
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise errors.DataError(f"{path}: cannot be opened as SQLite: {error}.") from None
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    try:
        yield from _read(connection, path, layout, reading, max_users, seed)
    except _SQLITE_ERRORS as error:
        raise errors.DataError(
            f"{path}: not TFF client data, or damaged ({_cause(error)}). Download it again with "
            "tff.simulation.datasets."
        ) from None
    finally:
        connection.close()


def num_examples(path: pathlib.Path) -> int | None:
    """Returns the number of examples in the file's metadata; None if it is unreadable."""
    try:
        with sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True) as connection:
            ((total,),) = connection.execute("SELECT SUM(num_examples) FROM client_metadata")
    except _SQLITE_ERRORS:
        return None
    return total


def _cause(error: Exception) -> str:
    """Returns SQLite's message if it names a table or column, else the code: never the text."""
    message = str(error)
    return message if "no such" in message else getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")


def _check_file(path: pathlib.Path) -> None:
    """Raises `DataError` unless the file is an unpacked SQLite database."""
    if path.is_dir():
        raise errors.DataError(f"{path}: is a folder. Pass the .sqlite file in it.")
    try:
        with path.open("rb") as file:
            magic = file.read(len(_SQLITE_MAGIC))
    except FileNotFoundError:
        raise errors.DataError(
            f"{path}: there is no such file. Download it with tff.simulation.datasets, and pass "
            "the .sqlite file (usually in ~/.tff)."
        ) from None
    except OSError as error:
        raise errors.DataError(f"{path}: cannot be read: {error.strerror or error}.") from None
    if magic.startswith(_LZMA_MAGIC) or path.suffix == ".lzma":
        raise errors.DataError(f"{path}: is compressed. Unpack it: unlzma --keep.")
    if magic != _SQLITE_MAGIC:
        raise errors.DataError(f"{path}: is not an SQLite file. Pass the .sqlite file of TFF.")


def _read(
    connection: sqlite3.Connection,
    path: pathlib.Path,
    layout: Format,
    reading: ParserState,
    max_users: int,
    seed: int,
) -> Iterator[Message]:
    """Yields the messages of a layout's splits, of at most `max_users` users if it is not 0."""
    users_to_read = None
    if max_users:
        users = connection.execute("SELECT DISTINCT client_id FROM client_metadata")
        users_to_read = split.choose_users((user for (user,) in users), max_users, seed=seed)
    count = 0
    for split_name in layout.splits:
        is_later = split_name in layout.later_splits
        population = messages.HELD_OUT if split_name in layout.held_out_splits else None
        for row, user, proto in _rows(connection, split_name, users_to_read):
            count += 1
            if count % _REPORT_EVERY == 0:
                reading.on_position(count)
            if not isinstance(user, str) or not user:
                what = f"row {row} of `examples` has no client id."
                reading.bad_line(path, row, "empty_user", f"{what} Check that the file is TFF's.")
                continue
            text = _text(proto, layout.feature)
            if text is None:
                what = f"row {row} of `examples` has no UTF-8 feature `{layout.feature}`."
                way_out = "Check `data.source` against the file."
                reading.bad_line(path, row, "no_feature", f"{what} {way_out}")
                continue
            for line in text.split("\n") if layout.line_is_message else [text]:
                if line.strip():
                    yield Message(user, line, population, is_later)
                else:
                    reading.skip("blank_line")
    if not count:
        raise errors.DataError(
            f"{path}: no example in the splits {', '.join(layout.splits)}. "
            "Check `data.source` against the file."
        )


def _rows(
    connection: sqlite3.Connection, split_name: str, users: list[str] | None
) -> Iterator[tuple[int, str, bytes]]:
    """Yields `(row, client, serialized example)` of a split, for `users` or for all clients."""
    query = "SELECT rowid, client_id, serialized_example_proto FROM examples WHERE split_name = ?"
    if users is None:
        yield from connection.execute(query, (split_name,))
        return
    for user in users:
        yield from connection.execute(f"{query} AND client_id = ?", (split_name, user))


def _text(proto: bytes, feature: str) -> str | None:
    """Returns the first string of a feature; None if the example has none, or is damaged."""
    import tensorflow as tf  # only for these two sources

    try:
        values = tf.train.Example.FromString(proto).features.feature[feature].bytes_list.value
        return values[0].decode("utf-8") if values else None
    except Exception:  # protobuf's own DecodeError, or a TypeError for other values than blobs
        return None
