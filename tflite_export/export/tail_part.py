"""The lexicon of an export with `--tail`: words beyond the table, counted or from a public list."""

import dataclasses
import pathlib

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.text.word_list import read_word_list
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.named import trained_here
from tff_keyboard.predictors.tail_lexicon import TailLexicon, listed
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import ExportError
from tflite_export.export.trained_run import TrainedRun
from tflite_export.format import manifest, tail_file
from tflite_export.format.manifest_content import TailFacts


@dataclasses.dataclass(frozen=True)
class TailPart:
    """What `--tail` adds to an export."""

    data: bytes  # the file
    facts: TailFacts  # what the manifest says of it

    @property
    def summary(self) -> str:
        """Its size, and where it is from."""
        sources = [self.facts.counted_on, self.facts.word_list]
        origin = " and ".join(source for source in sources if source)
        return f"{len(self.data):,} bytes, {self.facts.words:,} words beyond the table, of {origin}"


def find(
    directory: pathlib.Path,
    vocabulary: Vocabulary,
    store_directory: pathlib.Path,
    size: int,
    word_list: pathlib.Path | None,
) -> tuple[TailLexicon, str]:
    """The lexicon of a store's train people and of a list; of the list alone for a private run.

    Also says whom it was counted on, in words; "" for nobody. Errors are those of
    `trained_here.count_tail`. Raises `ExportError` if the run claims differential privacy and there
    is no list, or the store has another vocabulary.
    """
    if (directory / names.LEDGER).is_file():
        if word_list is None:
            raise ExportError(
                f"{directory} has a privacy ledger, and words counted from the same people's "
                "text would say what its noise hides. Give a public list with --word-list."
            )
        try:
            return listed(read_word_list(word_list, vocabulary.rules), vocabulary, size=size), ""
        except ValueError as error:
            raise ExportError(f"{word_list}: {error}.") from None
    store = ClientStore(store_directory)
    has = store.vocabulary
    if has.rules != vocabulary.rules or set(has.words) != set(vocabulary.words):
        raise ExportError(
            f"{store.directory}: its vocabulary is not the one of the run. Give the store the "
            "run was trained on with --store."
        )
    people = f"{len(store.client_ids('train')):,} people of 'train'"
    return trained_here.count_tail(store, size, word_list), people


def build(
    run: TrainedRun, store_directory: pathlib.Path, size: int, word_list: pathlib.Path | None
) -> TailPart:
    """The file of what `find` finds."""
    lexicon, counted_on = find(run.directory, run.vocabulary, store_directory, size, word_list)
    data = tail_file.encode(lexicon)
    return TailPart(
        data,
        TailFacts(
            words=len(lexicon),
            counted_on=counted_on,
            word_list=word_list.name if word_list else None,
            bytes=len(data),
            sha256=manifest.sha256(data),
        ),
    )
