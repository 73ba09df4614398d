"""Sorts messages by time on disk, so that memory does not grow with their number."""

import sqlite3
from collections.abc import Iterator

from tff_keyboard.data.sources.messages import Message, Typed


def by_time(typed: Iterator[Typed]) -> Iterator[Message]:
    """Yields the messages from the oldest to the newest. Equal times keep their order.

    They are kept in an unnamed temporary SQLite database, which is removed when it is closed.
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
