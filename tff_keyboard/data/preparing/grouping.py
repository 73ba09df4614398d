"""Groups interleaved messages by user on disk.

A temporary SQLite file accepts messages in any order and returns them user by user. The memory
contains one block of messages and the messages of one user, for any number of users.
"""

import pathlib
import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

_KNOWN_USERS = 50_000  # number of users whose rows are kept in memory
_BLOCK = 20_000  # messages kept in memory, then written grouped by user

_SEPARATOR = "\n"  # safe, because messages are tokens joined by single spaces


class UserMessages(NamedTuple):
    """All messages of a user, in order, and the population given by the source."""

    user: str
    population: str | None  # the first population given by the source, or None
    messages: list[str]  # tokens of each message, joined by spaces
    capitals: list[str]  # one line per message: `text.capitals`
    later: list[int]  # positions in `messages` that the source marks as later, increasing


class _Part(NamedTuple):
    """Consecutive messages of one user in a block, either all later or all not."""

    is_later: bool
    messages: list[str]
    capitals: list[str]


class Grouping:
    """A temporary database of messages. Add all messages, call `freeze`, then iterate."""

    def __init__(self, path: pathlib.Path):
        """Creates the temporary file. It need not survive a crash, so it is never synced."""
        self._connection = sqlite3.connect(path)
        self._connection.executescript(
            """
            PRAGMA journal_mode = OFF;
            PRAGMA synchronous = OFF;
            CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, population TEXT);
            CREATE TABLE messages
                (user INTEGER NOT NULL, later INTEGER NOT NULL, tokens TEXT, capitals TEXT);
            """
        )
        self._rows: dict[str, int] = {}
        self._block: dict[int, list[_Part]] = {}  # row of the user -> messages
        self._size = 0

    def add_user(self, user: str, population: str | None) -> int:
        """Returns the row of a user, and creates it at the first call with `population`."""
        row = self._rows.get(user)
        if row is not None:
            return row
        if len(self._rows) >= _KNOWN_USERS:
            self._rows.clear()
        self._connection.execute(
            "INSERT OR IGNORE INTO users (name, population) VALUES (?, ?)", (user, population)
        )
        ((row,),) = self._connection.execute("SELECT id FROM users WHERE name = ?", (user,))
        self._rows[user] = row
        return row

    def add_message(self, row: int, is_later: bool, tokens: str, capitals: str = "") -> None:
        """Adds a message, tokens joined by spaces, of the user in `row` (from `add_user`)."""
        parts = self._block.setdefault(row, [])
        if not parts or parts[-1].is_later != is_later:
            parts.append(_Part(is_later, [], []))
        parts[-1].messages.append(tokens)
        parts[-1].capitals.append(capitals)
        self._size += 1
        if self._size >= _BLOCK:
            self._write()

    def _write(self) -> None:
        """Writes the collected messages to the database, and empties the block."""
        self._connection.executemany(
            "INSERT INTO messages VALUES (?, ?, ?, ?)",
            (
                (row, part.is_later, *map(_SEPARATOR.join, (part.messages, part.capitals)))
                for row, parts in self._block.items()
                for part in parts
            ),
        )
        self._block, self._size = {}, 0

    def freeze(self) -> None:
        """Sorts the messages. Users can be read after this call."""
        self._write()
        self._connection.execute("CREATE INDEX by_user ON messages (user)")
        self._connection.commit()

    def num_users(self) -> int:
        ((count,),) = self._connection.execute("SELECT COUNT(*) FROM users")
        return count

    def user_names(self) -> Iterator[str]:
        """Yields the names of all users, sorted, including users without a usable message."""
        for (name,) in self._connection.execute("SELECT name FROM users ORDER BY name"):
            yield name

    def users(self) -> Iterator[UserMessages]:
        """Yields all users sorted by name, with their messages in the order of addition."""
        for row, name, population in self._connection.execute(
            "SELECT id, name, population FROM users ORDER BY name"
        ):
            messages: list[str] = []
            capitals: list[str] = []
            later: list[int] = []
            for tokens, lines, is_later in self._connection.execute(
                "SELECT tokens, capitals, later FROM messages WHERE user = ? ORDER BY rowid", (row,)
            ):
                part = tokens.split(_SEPARATOR)
                capitals += lines.split(_SEPARATOR)
                if is_later:
                    later.extend(range(len(messages), len(messages) + len(part)))
                messages += part
            yield UserMessages(name, population, messages, capitals, later)

    def close(self) -> None:
        self._connection.close()
