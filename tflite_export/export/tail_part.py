"""The lexicon of an export with `--tail`: words that are not in the table.

They are counted in the store or come from a public list.
"""

import dataclasses
import pathlib

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.text.word_list import read_word_list
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.model_specs import baselines
from tff_keyboard.predictors.tail_lexicon import TailLexicon, counted, listed
from tff_keyboard.storage.errors import ExportError, UsageError
from tflite_export.export import private_runs
from tflite_export.export.trained_run import TrainedRun
from tflite_export.format import manifest, tail_file
from tflite_export.format.manifest_content import TailFacts


@dataclasses.dataclass(frozen=True)
class TailPart:
    """The file and facts that `--tail` adds to an export."""

    data: bytes  # the file
    facts: TailFacts  # its entry in the manifest

    @property
    def summary(self) -> str:
        """Its size and its sources."""
        sources = [self.facts.counted_on, self.facts.word_list]
        origin = " and ".join(source for source in sources if source)
        words = f"{self.facts.words:,} words outside the vocabulary"
        return f"{len(self.data):,} bytes, {words}, from {origin}"


@dataclasses.dataclass(frozen=True)
class FoundTail:
    """A lexicon, and the users on whose text it was counted.

    Attributes:
      lexicon: The lexicon.
      counted_on: Description of the users; "" if the words were not counted.
      min_clients: Number of users who typed each word that is not on the list; None if the words
        were not counted.
      public_words: The words of the public list, known to the model or not.
    """

    lexicon: TailLexicon
    counted_on: str = ""
    min_clients: int | None = None
    public_words: frozenset[str] = frozenset()


def clients_needed(store: ClientStore, requested: int = 0) -> int:
    """Returns the minimum number of users of a listed word, at least two.

    It is `requested`, or the store's number.

    Raises `DataError` if the vocabulary was chosen with differential privacy, which exact counts
    would break.
    """
    store.require_exact_counts()
    return max(
        baselines.MIN_CLIENTS, requested or store.card["vocabulary"].get("min_word_users", 0)
    )


def find(
    directory: pathlib.Path,
    vocabulary: Vocabulary,
    store_directory: pathlib.Path,
    size: int,
    word_list: pathlib.Path | None,
    *,
    min_clients: int = 0,
) -> FoundTail:
    """Returns the lexicon of a store's train users and of a list.

    For a private run, the lexicon is made from the list alone, because counted words would reveal
    text that the noise hides. `min_clients` is the minimum number of users of a word that is not
    on the list; see `clients_needed`.

    Raises:
      ExportError: If the list is needed and missing, or the store has another vocabulary.
      DataError: If the list is missing, and as for `clients_needed`.
      UsageError: If no word is left.
    """
    if word_list is None:
        private_runs.refuse(directory, "words counted from", "Pass a public list with --word-list.")
    elif private_runs.is_private(directory):
        public_words = read_word_list(word_list, vocabulary.rules)
        try:
            return FoundTail(listed(public_words, vocabulary, size=size))
        except ValueError as error:
            raise ExportError(f"{word_list}: {error}.") from None
    store = ClientStore(store_directory)
    private_runs.refuse_counts(
        directory, store.client_ids("train"), "words counted from", "Export without --tail."
    )
    has = store.vocabulary
    if has.rules != vocabulary.rules or set(has.words) != set(vocabulary.words):
        raise ExportError(
            f"{store.directory}: its vocabulary differs from the vocabulary of the run. Pass the "
            "store the run was trained on with --store."
        )
    clients = f"{len(store.client_ids('train')):,} clients of 'train'"
    public_words = read_word_list(word_list, has.rules) if word_list else {}
    min_clients = clients_needed(store, min_clients)
    typed = (store.words("train", client) for client in store.client_ids("train"))
    try:
        lexicon = counted(typed, has, size=size, min_clients=min_clients, frequencies=public_words)
    except ValueError as error:
        way_out = "Pass a public list with --word-list"
        if word_list:
            way_out = f"Add words that are not in the vocabulary to {word_list}"
        raise UsageError(
            f"{store.directory}: {error}. {way_out}, or leave out the lexicon."
        ) from None
    return FoundTail(lexicon, clients, min_clients, frozenset(public_words))


def build(
    run: TrainedRun, store_directory: pathlib.Path, size: int, word_list: pathlib.Path | None
) -> TailPart:
    """Returns the file of the lexicon that `find` returns."""
    tail = find(run.directory, run.vocabulary, store_directory, size, word_list)
    data = tail_file.encode(tail.lexicon)
    return TailPart(
        data,
        TailFacts(
            words=len(tail.lexicon),
            counted_on=tail.counted_on,
            min_clients=tail.min_clients,
            word_list=word_list.name if word_list else None,
            word_list_sha256=manifest.sha256(word_list.read_bytes()) if word_list else None,
            bytes=len(data),
            sha256=manifest.sha256(data),
        ),
    )
