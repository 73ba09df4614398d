"""Text to check an export on, or to calibrate it with: from a client store or a file."""

import gzip
import math
import pathlib
import zlib
from collections.abc import Iterator
from typing import TextIO

import numpy as np

from tff_keyboard import config as config_lib
from tff_keyboard.data.text.python_tokenizer import PythonTokenizer
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import ExportError

# Below this, agreement and recall of a broken file may be perfect by chance.
LEAST_WORDS = 1_000
LEAST_PEOPLE = 5

LINES_A_PERSON = 20  # where a file names nobody, so many lines in a row count as one person's
UNNAMED = "lines "  # begins the name of such a person
_SEED = 1  # of which people are read

Texts = dict[str, list[list[str]]]


def store_of(run_dir: pathlib.Path, given: pathlib.Path | None) -> pathlib.Path:
    """The client store a person names, else that of the config of the run.

    Raises `ExportError` if neither is there.
    """
    if given is not None:
        return given
    path = run_dir / names.CONFIG
    if not path.is_file():
        raise ExportError(
            f"{run_dir} names no client store (it has no config.toml). Give --store or --text for "
            "the parity gate, or switch it off with --no-parity."
        )
    return pathlib.Path(config_lib.load_of_run(path).data.store)


def from_store(
    directory: pathlib.Path,
    population: str,
    vocabulary: Vocabulary,
    *,
    max_words: int,
    seed: int,
    least_people: int = 1,
) -> Texts:
    """Whole people of a population, in a seeded order, until `max_words` words are there.

    `least_people` are read at least, however much they typed, where there are as many.
    `ExportError` is raised if the store was made with other rules or words than `vocabulary`, or
    nobody is in the population; `DataError` if it is no client store.
    """
    from tff_keyboard.data.store.client_store import ClientStore  # TensorFlow: not on a phone

    store = ClientStore(directory)
    if store.vocabulary.fingerprint != vocabulary.fingerprint:
        raise ExportError(
            f"{directory}: its vocabulary is not the one of the run. Give the store the run was "
            "trained on, or text with --text=FILE."
        )
    people = store.client_ids(population)
    order = np.random.default_rng(seed).permutation(len(people))
    texts: Texts = {}
    words = 0
    for place in order:
        if words >= max_words and len(texts) >= least_people:
            break
        texts[people[place]] = [list(message) for message in store.words(population, people[place])]
        words += sum(map(len, texts[people[place]]))
    if not words:
        raise ExportError(
            f"{directory}: the population {population!r} has no words. Choose another with "
            "--clients, or give text with --text=FILE."
        )
    return texts


def from_file(
    path: pathlib.Path, rules: NormalisationRules, *, max_words: float = math.inf
) -> Texts:
    """Messages from lines `user<TAB>text`, or of text alone; `.gz` is unpacked.

    No more is read once `max_words` words are there. Raises `ExportError` if the file cannot be
    read as UTF-8 text, or has no words.
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
        raise ExportError(f"{path}: holds no words.")
    return texts


def read(
    text: pathlib.Path | None,
    store: pathlib.Path,
    population: str,
    vocabulary: Vocabulary,
    max_words: int,
) -> Texts:
    """`from_file` of `text`, or `from_store` where there is none."""
    if text is not None:
        return from_file(text, vocabulary.rules, max_words=max_words)
    return from_store(store, population, vocabulary, max_words=max_words, seed=_SEED)


def check_person(path: pathlib.Path, user: str | None) -> None:
    """Raises `ExportError` where a file cannot be read, or has no line of `user`."""
    if all(name != user for name, _ in _lines(path)) and user is not None:
        raise ExportError(
            f"`user` {user!r} has no messages in {path}. Give the name before a <TAB>, exactly."
        )


def who_it_is(user: str, people: Texts) -> str:
    """Says on whose messages a model is trained where nobody was asked for."""
    words = sum(map(len, people[user]))
    facts = f"{len(people[user]):,} messages, {words:,} words"
    if user.startswith(UNNAMED):
        return (
            f"No line names its user: {LINES_A_PERSON} lines in a row count as one person's, and "
            f"{user} have the most words ({facts})."
        )
    return (
        f"No --user given: {user!r} has the most words of {len(people):,} people ({facts}). The "
        "others' messages are not used."
    )


def _lines(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """`(user, text)` of each line; where nobody is named, lines in a row are one person's."""
    try:
        with _open_text(path) as file:
            for number, line in enumerate(file):
                user, tab, text = line.rstrip("\n").partition("\t")
                if not tab:
                    first = number // LINES_A_PERSON * LINES_A_PERSON + 1
                    user, text = f"{UNNAMED}{first} to {first + LINES_A_PERSON - 1}", user
                yield user, text
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise ExportError(f"{path}: cannot be read as UTF-8 text ({reason}).") from None


def _open_text(path: pathlib.Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")
