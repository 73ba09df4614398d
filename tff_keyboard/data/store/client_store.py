"""Reads a client store: the clients of each population and their messages."""

import dataclasses
import functools
import hashlib
import hmac
import io
import itertools
import operator
import os
import pathlib
import shlex
import sqlite3
import stat
import threading
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, overload

import numpy as np

from tff_keyboard.data.sources.messages import POPULATIONS
from tff_keyboard.data.store import example_bytes, forms_file, store_card, store_writer
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.storage import errors, files, names

_PSEUDONYMS = b"tff-keyboard pseudonyms 1"


@dataclasses.dataclass(frozen=True)
class _Clients:
    """Clients of one population, sorted by id."""

    ids: list[str]
    counts: np.ndarray  # [clients] int64, number of messages
    starts: np.ndarray  # [clients] int64, first row of each client

    @functools.cached_property
    def id_set(self) -> frozenset[str]:
        return frozenset(self.ids)


class StoredMessages(Sequence[np.ndarray]):
    """The word ids of each message of a client, `[words]` int32, decoded at each lookup.

    Decoding takes most of the reading time, and a round may need only a few of many messages.
    """

    def __init__(self, rows: Sequence[bytes]):
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> "StoredMessages": ...
    def __getitem__(self, index: int | slice) -> "np.ndarray | StoredMessages":
        if isinstance(index, slice):
            return StoredMessages(self._rows[index])
        return example_bytes.word_ids(self._rows[index])


class ClientStore:
    """A client store that `prepare` wrote, read-only. Safe to use from several threads.

        store = ClientStore("data/sms")
        ids = store.client_ids("train")
        messages = store.messages("train", ids[0])  # word ids, [words] int32 each

    Attributes:
      directory: Directory of the store.
      card: The data card.
      card_hash: SHA-256 of the card in hex.
      vocabulary: The vocabulary that the ids refer to.
      truecase: Capitalised forms for the display of words; empty for stores of cased text.
    """

    def __init__(self, directory: str | os.PathLike[str]):
        """Opens a store and checks that it is complete.

        Args:
          directory: Directory of the store.

        Raises:
          DataError: If it is not a store, or was damaged or changed.
        """
        self.directory = pathlib.Path(directory)
        self._pseudonym_key = b""
        self.card = store_card.read_card(self.directory)
        self.card_hash = store_card.card_hash(self.directory)
        self.vocabulary = Vocabulary.load(self.directory / names.VOCABULARY)
        if self.vocabulary.fingerprint != self.card["vocabulary"].get("fingerprint"):
            raise errors.DataError(
                f"{self.directory}: the vocabulary does not match the data card. "
                "Run `tff-keyboard prepare` again with --overwrite."
            )
        forms = self.directory / names.TRUECASE
        has_forms = names.TRUECASE in self.card["file_bytes"]
        self.truecase = forms_file.read_forms(forms) if has_forms else []
        self._threads = threading.local()
        self._file = (self.directory / names.CLIENTS).absolute()
        self._opened = _file_state(self._file)
        self._lengths = _open_lengths(self.directory, self.card)
        try:
            query = "SELECT split_name, client_id, num_examples FROM client_metadata ORDER BY rowid"
            recorded = self._connection().execute(query).fetchall()
            self._clients = _by_population(recorded)
            is_whole = self._is_whole(recorded)
        except (sqlite3.Error, KeyError, TypeError, ValueError, OverflowError):
            raise errors.DataError(
                f"{self.directory / names.CLIENTS}: is damaged. "
                "Run `tff-keyboard prepare` again with --overwrite."
            ) from None
        if not is_whole:
            raise errors.DataError(
                f"{self.directory / names.CLIENTS}: was changed after `prepare`: its content does "
                f"not match {names.DATA_CARD}. Restore the store, or run `tff-keyboard "
                "prepare` again with --overwrite."
            )
        _warn_where_others_may_read(self.directory)

    def pseudonym(self, client_id: str) -> str:
        """Returns the name of a client in result files: 16 hex digits.

        The name is an HMAC with a key derived from all text of the store. Equal stores give equal
        names, and without the store a name cannot be matched by testing ids.
        """
        return hmac.new(self._pseudonym_key, client_id.encode(), "sha256").hexdigest()[:16]

    def require_exact_counts(self) -> None:
        """Raises `DataError` if words were chosen privately; exact counts would undo the noise."""
        if self.card["vocabulary"].get("privacy"):
            raise errors.DataError(
                f"{self.directory}: its vocabulary was chosen with differential privacy. A "
                "list counted without noise on the same clients would reveal what the noise hides. "
                "Leave the list out, or add noise if the task can."
            )

    @property
    def vocabulary_text(self) -> str:
        """The file of the vocabulary."""
        return files.content(self.directory / names.VOCABULARY, follow_link=True).decode("utf-8")

    def client_ids(self, population: str) -> list[str]:
        """Returns all clients of a population, sorted.

        Raises `ValueError` if there is no such population.
        """
        return list(self._population(population).ids)

    def num_messages(self, population: str) -> np.ndarray:
        """Returns the messages of each client, [clients] int64 in the order of `client_ids`."""
        return self._population(population).counts.copy()

    def messages(self, population: str, client_id: str) -> StoredMessages:
        """Returns the word ids of each message in the order typed, [words] int32.

        The ids have neither BOS nor EOS, and no message is empty. A message is decoded each time it
        is looked up. Raises `ValueError` if there is no such population or client.
        """
        return StoredMessages(self._rows(population, client_id))

    def message_lengths(self, population: str, index: int) -> np.ndarray:
        """Returns the number of words of each message of the client at `index`, [messages] int32.

        The messages are in the order typed. Raises `ValueError` if there is no such population.
        """
        clients = self._population(population)
        start = clients.starts[index]
        return self._lengths[start : start + clients.counts[index]]

    def all_messages(self, population: str) -> list[np.ndarray]:
        """Returns the word ids of each message of a whole population, client after client.

        Raises `ValueError` if there is no such population, `DataError` if it has no messages.
        """
        clients = (self.messages(population, client) for client in self.client_ids(population))
        messages = list(itertools.chain.from_iterable(clients))
        if not messages:
            raise errors.DataError(f"{self.directory} has no messages of '{population}' clients.")
        return messages

    def words(self, population: str, client_id: str) -> list[list[str]]:
        """Returns the normalised words of each message in the order typed, with OOV words in full.

        Raises `ValueError` if there is no such population or client.
        """
        return list(map(example_bytes.words, self._rows(population, client_id)))

    def _is_whole(self, recorded: list[tuple[str, str, int]]) -> bool:
        """Compares every row with the card's digest, and the rows of each client with `recorded`.

        Takes two seconds for a million messages.
        """
        connection = self._connection()
        digest = hashlib.sha256()
        rows = connection.execute(
            "SELECT split_name, client_id, serialized_example_proto FROM examples ORDER BY rowid"
        )
        expected = iter(recorded)
        for client, client_rows in itertools.groupby(rows, key=operator.itemgetter(0, 1)):
            count = 0
            for row in client_rows:
                digest.update(store_writer.digested(*row))
                count += 1
            if next(expected, None) != (*client, count):
                return False
        # Continue the running hash, so that the key does not follow from the digest in the card.
        ending = digest.copy()
        ending.update(_PSEUDONYMS)
        self._pseudonym_key = ending.digest()
        total = sum(count for *_, count in recorded)
        is_all = next(expected, None) is None and len(self._lengths) == total
        is_same = is_all and digest.hexdigest() == self.card["store_sha256"]
        return is_same and connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    def _population(self, population: str) -> _Clients:
        if population not in self._clients:
            raise ValueError(
                f"`population` must be one of {', '.join(POPULATIONS)}, got {population!r}."
            )
        return self._clients[population]

    def _rows(self, population: str, client_id: str) -> list[bytes]:
        """Returns the serialized examples of a client, one per message."""
        if client_id not in self._population(population).id_set:
            raise ValueError(f"No client {client_id!r} in population {population!r}.")
        rows = self._connection().execute(
            "SELECT serialized_example_proto FROM examples "
            "WHERE split_name = ? AND client_id = ? ORDER BY rowid",
            (population, client_id),
        )
        return [proto for (proto,) in rows]

    def _connection(self) -> sqlite3.Connection:
        """Returns this thread's connection, read-only and without locks: a store never changes.

        The noise of a private run belongs to the text that was compared with the card. So a file
        that was written to since then is refused. A file that was replaced remains readable in a
        thread that has opened it.

        Raises `DataError` if the text is not the text of the card any more.
        """
        now = _file_state(self._file)
        connection = getattr(self._threads, "connection", None)
        if now != self._opened and (connection is None or now[:2] == self._opened[:2]):
            raise errors.DataError(
                f"{self._file}: was changed while it was in use. Restore the store, then run the "
                "same command again."
            )
        if connection is None:
            connection = sqlite3.connect(f"{self._file.as_uri()}?immutable=1", uri=True)
            self._threads.connection = connection
        return connection


def _file_state(file: pathlib.Path) -> tuple[int, ...]:
    """Returns device, inode, size and time of change of a file; zeros if it does not exist."""
    try:
        state = file.stat()
    except OSError:
        return (0, 0, 0, 0)
    return (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)


def _warn_where_others_may_read(directory: pathlib.Path) -> None:
    """Warns if other users of the machine can read a store, and says how to change it."""
    folder, file = directory.stat().st_mode, (directory / names.CLIENTS).stat().st_mode
    if folder & stat.S_IXOTH and file & stat.S_IROTH:
        warnings.warn(
            f"{directory}: every user of this machine can read the messages in this store. "
            f"Run `chmod -R go= {shlex.quote(str(directory))}`.",
            stacklevel=3,
        )


def _by_population(recorded: list[tuple[str, str, int]]) -> dict[str, _Clients]:
    """Returns the clients by population.

    `recorded` has the population, the id and the number of messages of each client, in the order of
    the rows.
    """
    rows: dict[str, list[tuple[str, int, int]]] = {population: [] for population in POPULATIONS}
    start = 0
    for population, client_id, count in recorded:
        rows[population].append((client_id, count, start))
        start += count
    by_population = {}
    for population, clients in rows.items():
        clients.sort()
        ids = [client_id for client_id, _, _ in clients]
        rows_of = np.array([counts for _, *counts in clients], np.int64).reshape(-1, 2)
        by_population[population] = _Clients(ids, *rows_of.T.copy())
    return by_population


def _open_lengths(directory: pathlib.Path, card: Mapping[str, Any]) -> np.ndarray:
    """Returns the number of words of each message, [messages] int32 in the order of the rows.

    The array is not read into memory. Rounds of many clients are planned with it, without reading
    text. Raises `DataError` if the file is not the array recorded in the card.
    """
    path = directory / names.MESSAGE_LENGTHS
    try:
        lengths = _mapped(path)
        is_whole = hashlib.sha256(lengths.data).hexdigest() == card["lengths_sha256"]
    except (OSError, ValueError, KeyError):
        is_whole = False
    if not is_whole:
        raise errors.DataError(
            f"{path}: was changed after `prepare`. Run `tff-keyboard prepare` again with "
            "--overwrite."
        )
    return lengths


def _mapped(path: pathlib.Path) -> np.ndarray:
    """Maps the array of a `.npy` file written by `prepare`, which always has the same header.

    NumPy would parse the header as Python, which fails in many ways for damaged files.
    """
    start = len(_head(0))
    head = _head((path.stat().st_size - start) // 4)
    with files.open_regular(path, follow_link=True) as file:
        if file.read(len(head)) != head:
            raise ValueError("another head than ours")
    return np.asarray(np.memmap(path, "<i4", "r", start))  # slices are cheap views


def _head(size: int) -> bytes:
    """Returns the header of an .npy file with `size` int32 numbers."""
    stream = io.BytesIO()
    array = {"descr": "<i4", "fortran_order": False, "shape": (size,)}
    np.lib.format.write_array_header_1_0(stream, array)  # type: ignore[no-untyped-call]
    return stream.getvalue()
