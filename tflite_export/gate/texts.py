"""Reads the text on which an export is checked, from a client store or a file."""

import gzip
import math
import pathlib
import zlib
from collections.abc import Iterator
from typing import TextIO

import numpy as np

from tff_keyboard import config as config_lib
from tff_keyboard.data.sources import formats
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import ExportError

LINES_PER_CLIENT = 20  # consecutive lines that count as one user's if the file names no users
UNNAMED = "lines "  # start of the name of such a user
_SEED = 1  # of the order in which users of a store are read

Texts = dict[str, list[list[str]]]


def store_of(run_dir: pathlib.Path, store: pathlib.Path | None) -> pathlib.Path:
    """Returns `store`, or the client store in the config of the run.

    Raises:
      ExportError: If `store` is None and the run has no config.
    """
    if store is not None:
        return store
    path = run_dir / names.CONFIG
    if not path.is_file():
        raise ExportError(
            f"{run_dir} names no client store (it has no config.toml). Pass --store or --text for "
            "the parity gate, or turn it off with --no-parity."
        )
    return pathlib.Path(config_lib.load_of_run(path).data.store)


def from_store(
    directory: pathlib.Path,
    population: str,
    vocabulary: Vocabulary,
    *,
    max_words: int,
    seed: int,
) -> Texts:
    """Reads whole users of a population in a seeded order, until there are `max_words` words.

    Args:
      directory: The client store.
      population: Population of the store.
      vocabulary: Vocabulary of the run. The store must have the same.
      max_words: Reading stops after the user with whom this number is reached.
      seed: Seed of the order of users.

    Raises:
      ExportError: If the store has other rules or words than `vocabulary`, or the population is
        empty.
      DataError: If `directory` is not a client store.
    """
    from tff_keyboard.data.store.client_store import ClientStore  # imports TensorFlow

    store = ClientStore(directory)
    if store.vocabulary.fingerprint != vocabulary.fingerprint:
        raise ExportError(
            f"{directory}: its vocabulary differs from the vocabulary of the run. Pass the store "
            "the run was trained on, or text with --text=FILE."
        )
    clients = store.client_ids(population)
    order = np.random.default_rng(seed).permutation(len(clients))
    texts: Texts = {}
    words = 0
    for index in order:
        if words >= max_words:
            break
        texts[clients[index]] = [
            list(message) for message in store.words(population, clients[index])
        ]
        words += sum(map(len, texts[clients[index]]))
    if not words:
        raise ExportError(
            f"{directory}: the population {population!r} has no words. Choose another with "
            "--clients, or pass text with --text=FILE."
        )
    return texts


def from_file(
    path: pathlib.Path, rules: NormalisationRules, *, max_words: float = math.inf
) -> Texts:
    """Reads messages from a text file or from any format of `prepare`.

    A text file has lines `user<TAB>text`, or lines of text alone.

    Args:
      path: The file.
      rules: Rules by which text is cut into words.
      max_words: Reading stops after this number of words.

    Raises:
      ExportError: If the file cannot be read as UTF-8 text, or has no words.
      DataError: If a table or an exported chat is damaged.
    """
    tokenizer = PythonTokenizer(rules)
    texts: Texts = {}
    words = 0
    for user, text in _lines(path):
        message = tokenizer.tokenize_one(text)
        if message:
            texts.setdefault(user, []).append(message)
            words += len(message)
        if words >= max_words:
            break
    if not texts:
        raise ExportError(f"{path}: has no words.")
    return texts


def read(
    text: pathlib.Path | None,
    store: pathlib.Path,
    population: str,
    vocabulary: Vocabulary,
    max_words: int,
) -> Texts:
    """Reads `text` with `from_file`, or the store with `from_store` if `text` is None."""
    if text is not None:
        return from_file(text, vocabulary.rules, max_words=max_words)
    return from_store(store, population, vocabulary, max_words=max_words, seed=_SEED)


def check_client(path: pathlib.Path, user: str | None) -> None:
    """Checks that a file can be read and, if `user` is given, has lines of `user`.

    Raises:
      ExportError: If the file cannot be read, or has no line of `user`.
    """
    if all(name != user for name, _ in _lines(path)) and user is not None:
        raise ExportError(
            f"`user` {user!r} has no messages in {path}. Pass the exact name before a <TAB>."
        )


def who_it_is(user: str, clients: Texts) -> str:
    """Returns a sentence that names the user whose messages are used if --user was not given."""
    words = sum(map(len, clients[user]))
    facts = f"{len(clients[user]):,} messages, {words:,} words"
    if user.startswith(UNNAMED):
        return (
            f"The lines have no users, so each {LINES_PER_CLIENT} lines in a row count as one "
            f"client; {user} have the most words ({facts})."
        )
    return (
        f"No --user given: {user!r} has the most words of {len(clients):,} users ({facts}). The "
        "messages of the others are not used."
    )


def _lines(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yields `(user, text)` for each line.

    If a line names no user, `LINES_PER_CLIENT` lines in a row count as one user's. Tables and
    exported chats are read as `prepare` reads them.
    """
    messages = formats.messages_of_file(path)
    if messages is not None:
        yield from ((message.user, message.text) for message in messages)
        return
    try:
        with _open_text(path) as file:
            for number, line in enumerate(file):
                user, tab, text = line.rstrip("\n").partition("\t")
                if not tab:
                    first = number // LINES_PER_CLIENT * LINES_PER_CLIENT + 1
                    user, text = f"{UNNAMED}{first} to {first + LINES_PER_CLIENT - 1}", user
                yield user, text
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ExportError(f"{path}: cannot be read as UTF-8 text ({reason}).") from None


def _open_text(path: pathlib.Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
