"""Reads a client store: the clients of each population and what they typed."""

from __future__ import annotations

import collections
import hashlib
import os
import pathlib
import sqlite3
import threading
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.data.sources.messages import POPULATIONS
from tff_keyboard.data.store import example_bytes, store_card, store_writer, truecase_table
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.storage import errors, names


class ClientStore:
    """What `prepare` wrote, read only. Safe to use from several threads.

    Attributes:
      directory: Where it is.
      card: The data card.
      card_hash: SHA-256 of the card in hex.
      vocabulary: The table its ids belong to.
      truecase: Forms with capitals in which words are shown; older stores, and those of cased
        text, have none.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        """Opens a store and checks that it is whole.

        Args:
          directory: What `prepare` was given as output.

        Raises:
          DataError: It is not a store, or was damaged or changed.
        """
        self.directory = pathlib.Path(directory)
        self.card: dict[str, Any] = store_card.read_card(self.directory)
        self.card_hash = store_card.card_hash(self.directory)
        self.vocabulary = Vocabulary.load(self.directory / names.VOCABULARY)
        if self.vocabulary.fingerprint != self.card["vocabulary"]["fingerprint"]:
            raise errors.DataError(
                f"{self.directory}: vocabulary and data card do not belong together. "
                "Run `tff-keyboard prepare` again with --overwrite."
            )
        forms = self.directory / names.TRUECASE
        has_forms = names.TRUECASE in self.card["file_bytes"]
        self.truecase = truecase_table.read_forms(forms.read_bytes()) if has_forms else []
        self._threads = threading.local()
        self._clients: dict[str, dict[str, int]] = {population: {} for population in POPULATIONS}
        try:
            for client_id, population, count in self._connection().execute(
                "SELECT client_id, split_name, num_examples FROM client_metadata ORDER BY client_id"
            ):
                self._clients[population][client_id] = count
            is_whole = self._is_whole()
        except (sqlite3.Error, KeyError, TypeError):
            raise errors.DataError(
                f"{self.directory / names.CLIENTS}: is damaged. "
                "Run `tff-keyboard prepare` again with --overwrite."
            ) from None
        if not is_whole:
            raise errors.DataError(
                f"{self.directory / names.CLIENTS}: was changed since `prepare`, its content is "
                f"not what {names.DATA_CARD} records. Restore the store, or run `tff-keyboard "
                "prepare` again with --overwrite."
            )

    def client_ids(self, population: str) -> list[str]:
        """All clients of a population, sorted.

        Raises:
          ValueError: There is no such population.
        """
        return list(self._population(population))

    def num_examples(self, population: str) -> np.ndarray:
        """Messages of each client: `[clients]` int64 in the order of `client_ids`."""
        return np.fromiter(self._population(population).values(), dtype=np.int64)

    def examples(self, population: str, client_id: str) -> list[np.ndarray]:
        """Word ids of each message, without BOS and EOS, in the order typed.

        Returns:
          A list of `[words]` int32 arrays, none of them empty.

        Raises:
          ValueError: There is no such population or client.
        """
        return [
            np.array(example.features.feature[example_bytes.IDS_FEATURE].int64_list.value, np.int32)
            for example in self._examples(population, client_id)
        ]

    def message_lengths(self, population: str, client_id: str) -> np.ndarray:
        """Words of each message, [messages] int64, in the order typed.

        Raises:
          ValueError: There is no such population or client.
        """
        return np.array([len(ids) for ids in self.examples(population, client_id)], np.int64)

    def all_examples(self, population: str) -> list[np.ndarray]:
        """Word ids of each message of a whole population, client after client.

        Raises:
          ValueError: There is no such population.
          DataError: It has no messages.
        """
        messages = [
            message
            for client_id in self.client_ids(population)
            for message in self.examples(population, client_id)
        ]
        if not messages:
            raise errors.DataError(f"{self.directory} has no messages of '{population}' clients.")
        return messages

    def words(self, population: str, client_id: str) -> list[list[str]]:
        """Normalised words of each message, OOV words spelled out, in the order typed.

        Raises:
          ValueError: There is no such population or client.
        """
        return [
            example.features.feature[example_bytes.TOKENS_FEATURE]
            .bytes_list.value[0]
            .decode("utf-8")
            .split(" ")
            for example in self._examples(population, client_id)
        ]

    def _is_whole(self) -> bool:
        """Compares every row with the card's digest, and the index by client with the rows.

        It takes two seconds for a million messages.
        """
        connection = self._connection()
        digest = hashlib.sha256()
        counts: collections.Counter[tuple[str, str]] = collections.Counter()
        for population, client_id, proto in connection.execute(
            "SELECT split_name, client_id, serialized_example_proto FROM examples ORDER BY rowid"
        ):
            digest.update(store_writer.digested(population, client_id, proto))
            counts[population, client_id] += 1
        recorded = {
            (population, client_id): count
            for population, clients in self._clients.items()
            for client_id, count in clients.items()
        }
        is_same = digest.hexdigest() == self.card["store_sha256"] and counts == recorded
        return is_same and connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def _population(self, population: str) -> dict[str, int]:
        if population not in self._clients:
            raise ValueError(
                f"`population` must be one of {', '.join(POPULATIONS)}, got {population!r}."
            )
        return self._clients[population]

    def _examples(self, population: str, client_id: str) -> list[tf.train.Example]:
        if client_id not in self._population(population):
            raise ValueError(f"No client {client_id!r} in population {population!r}.")
        rows = self._connection().execute(
            "SELECT serialized_example_proto FROM examples "
            "WHERE split_name = ? AND client_id = ? ORDER BY rowid",
            (population, client_id),
        )
        return [tf.train.Example.FromString(proto) for (proto,) in rows]

    def _connection(self) -> sqlite3.Connection:
        """One connection a thread, read only and without locks: nobody writes to a store."""
        connection = getattr(self._threads, "connection", None)
        if connection is None:
            file = (self.directory / names.CLIENTS).absolute()
            connection = sqlite3.connect(f"{file.as_uri()}?immutable=1", uri=True)
            self._threads.connection = connection
        return connection
