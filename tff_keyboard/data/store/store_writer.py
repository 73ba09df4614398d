"""Writes the SQLite file of a client store, in TFF's format, and the lengths of its messages.

Source of the format: `tff.simulation.datasets.SqlClientData` and `save_to_sql_client_data` of TFF
0.87.
"""

import array
import hashlib
import itertools
import pathlib
import sqlite3
from collections.abc import Sequence

import numpy as np

from tff_keyboard.storage import names


def client_id_of(user: str) -> str:
    """Returns a user's name as a client id without quotes. TFF puts ids in quotes in SQL.

    >>> client_id_of("o'neil"), client_id_of("50%")
    ('o%27neil', '50%25')
    """
    return user.replace("%", "%25").replace("'", "%27")


class StoreWriter:
    """A store that is being written. Add clients one by one, then call `close`."""

    def __init__(self, directory: pathlib.Path):
        self._directory = directory
        self._lengths = array.array("i")
        self._connection = sqlite3.connect(directory / names.CLIENTS)
        self._connection.executescript(
            """
            PRAGMA journal_mode = OFF;
            PRAGMA synchronous = OFF;
            CREATE TABLE examples (
                split_name TEXT NOT NULL,
                client_id TEXT NOT NULL,
                serialized_example_proto BLOB NOT NULL);
            CREATE TABLE client_metadata (
                client_id TEXT NOT NULL,
                split_name TEXT NOT NULL,
                num_examples INTEGER NOT NULL);
            """
        )
        self._digest = hashlib.sha256()

    def add_client(
        self, population: str, client_id: str, examples: Sequence[bytes], lengths: Sequence[int]
    ) -> None:
        """Adds all examples of a client (`client_id_of`) in order, once for each population."""
        self._lengths.extend(lengths)
        start = f"{population}\0{client_id}\0"
        self._digest.update(
            b"".join([f"{start}{len(proto)}\0".encode() + proto for proto in examples])
        )
        self._connection.executemany(
            "INSERT INTO examples VALUES (?, ?, ?)",
            zip(itertools.repeat(population), itertools.repeat(client_id), examples, strict=False),
        )
        self._connection.execute(
            "INSERT INTO client_metadata VALUES (?, ?, ?)", (client_id, population, len(examples))
        )

    def close(self) -> dict[str, str]:
        """Finishes the files. Returns the SHA-256 in hex of the examples and of the lengths."""
        lengths = np.array(self._lengths, np.int32)
        np.save(self._directory / names.MESSAGE_LENGTHS, lengths)
        self._connection.execute("CREATE INDEX by_client ON examples (split_name, client_id)")
        self._connection.execute(
            "CREATE UNIQUE INDEX metadata_by_client ON client_metadata (split_name, client_id)"
        )
        self._connection.commit()
        self._connection.close()
        return {
            "store_sha256": self._digest.hexdigest(),
            "lengths_sha256": hashlib.sha256(lengths.tobytes()).hexdigest(),
        }


def digested(population: str, client_id: str, proto: bytes) -> bytes:
    """Returns the bytes that a row adds to the digest of a store."""
    return f"{population}\0{client_id}\0{len(proto)}\0".encode() + proto
