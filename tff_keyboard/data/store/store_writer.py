"""Writes the SQLite file of a client store, in the format of TFF.

Source of the format: `tff.simulation.datasets.SqlClientData` and
`save_to_sql_client_data` of TFF 0.87.
"""

from __future__ import annotations

import hashlib
import pathlib
import sqlite3
from collections.abc import Sequence

import tensorflow as tf

from tff_keyboard.storage import names

IDS_FEATURE = "ids"
TOKENS_FEATURE = "tokens"


def client_id_of(user: str) -> str:
    """The user's name as a client id: TFF puts ids into SQL between quotes, so none may hold one.

    >>> client_id_of("o'neil"), client_id_of("50%")
    ('o%27neil', '50%25')
    """
    return user.replace("%", "%25").replace("'", "%27")


class StoreWriter:
    """Adds clients one by one; `close` makes the file ready to read."""

    def __init__(self, directory: pathlib.Path):
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
        self, population: str, client_id: str, ids: Sequence[Sequence[int]], tokens: Sequence[str]
    ) -> None:
        """Adds all examples of a client in a population, in their order.

        Args:
          population: Split name.
          client_id: From `client_id_of`; once for each population.
          ids: Word ids of each message.
          tokens: Normalised words of each message, joined by spaces.
        """
        protos = [_example(*pair) for pair in zip(ids, tokens, strict=True)]
        for proto in protos:
            self._digest.update(digested(population, client_id, proto))
        self._connection.executemany(
            "INSERT INTO examples VALUES (?, ?, ?)",
            ((population, client_id, proto) for proto in protos),
        )
        self._connection.execute(
            "INSERT INTO client_metadata VALUES (?, ?, ?)", (client_id, population, len(protos))
        )

    def close(self) -> str:
        """Finishes the file; returns the SHA-256 in hex of its content, row by row."""
        self._connection.execute("CREATE INDEX by_client ON examples (split_name, client_id)")
        self._connection.execute(
            "CREATE UNIQUE INDEX metadata_by_client ON client_metadata (split_name, client_id)"
        )
        self._connection.commit()
        self._connection.close()
        return self._digest.hexdigest()


def digested(population: str, client_id: str, proto: bytes) -> bytes:
    """What a row adds to the digest of a store, in the order of the rows."""
    return f"{population}\0{client_id}\0{len(proto)}\0".encode() + proto


def _example(ids: Sequence[int], tokens: str) -> bytes:
    feature = {
        IDS_FEATURE: tf.train.Feature(int64_list=tf.train.Int64List(value=ids)),
        TOKENS_FEATURE: tf.train.Feature(
            bytes_list=tf.train.BytesList(value=[tokens.encode("utf-8")])
        ),
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    # Deterministic: the features are a map, and the bytes are hashed.
    return example.SerializeToString(deterministic=True)
