"""Groups the messages of interleaved users on disk.

A scratch SQLite file takes messages in any order and gives them back user by user.
Memory holds one user's messages at a time, whatever the number of users.
"""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_KNOWN_USERS = 50_000  # row numbers kept in memory


class TokenisedMessage(NamedTuple):
    """Tokens of one message, joined by spaces, and whether the source calls it later."""

    tokens: str
    is_later: bool


class UserMessages(NamedTuple):
    """All messages of a user, in their order, and the population the source gave."""

    user: str
    population: str | None
    messages: list[TokenisedMessage]


class Grouping:
    """Add everything, then `freeze`, then iterate as often as needed."""

    def __init__(self, path: pathlib.Path):
        """Makes the scratch file; it need not survive a crash, so nothing is synced."""
        self._connection = sqlite3.connect(path)
        self._connection.executescript(
            """
            PRAGMA journal_mode = OFF;
            PRAGMA synchronous = OFF;
            CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, population TEXT);
            CREATE TABLE messages (user INTEGER NOT NULL, later INTEGER NOT NULL, tokens TEXT);
            """
        )
        self._rows: dict[str, int] = {}

    def add_user(self, user: str, population: str | None) -> int:
        """The row of a user, made at the first call; `population` counts then only."""
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

    def add_messages(self, messages: Iterable[tuple[int, bool, str]]) -> None:
        """Adds `(user row, is_later, tokens joined by spaces)`."""
        self._connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", messages)

    def freeze(self) -> None:
        """Sorts; after this, users can be read."""
        self._connection.execute("CREATE INDEX by_user ON messages (user)")
        self._connection.commit()

    def num_users(self) -> int:
        """Users that were added."""
        ((count,),) = self._connection.execute("SELECT COUNT(*) FROM users")
        return count

    def user_names(self) -> Iterator[str]:
        """All users, also those without a usable message, sorted."""
        for (name,) in self._connection.execute("SELECT name FROM users ORDER BY name"):
            yield name

    def users(self) -> Iterator[UserMessages]:
        """All users sorted by name, each with the messages in the order they were added."""
        for row, name, population in self._connection.execute(
            "SELECT id, name, population FROM users ORDER BY name"
        ):
            rows = self._connection.execute(
                "SELECT tokens, later FROM messages WHERE user = ? ORDER BY rowid", (row,)
            )
            yield UserMessages(
                name, population, [TokenisedMessage(tokens, bool(later)) for tokens, later in rows]
            )

    def close(self) -> None:
        """Ends the use of the scratch file, which stays."""
        self._connection.close()
