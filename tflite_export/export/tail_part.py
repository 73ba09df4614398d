"""The lexicon of an export with `--tail`: words beyond the table, counted or from a public list."""

import dataclasses
import pathlib

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.text.word_list import read_word_list
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.named import trained_here
from tff_keyboard.predictors.tail_lexicon import TailLexicon, listed
from tff_keyboard.storage.errors import ExportError
from tflite_export.export import private_runs
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


@dataclasses.dataclass(frozen=True)
class FoundTail:
    """A lexicon, and whom it was counted on.

    Attributes:
      counted_on: The people in words; "" for nobody.
      least_people: How many of them typed each word that is not on the list; None for nobody.
    """

    lexicon: TailLexicon
    counted_on: str = ""
    least_people: int | None = None


def find(
    directory: pathlib.Path,
    vocabulary: Vocabulary,
    store_directory: pathlib.Path,
    size: int,
    word_list: pathlib.Path | None,
    *,
    least_people: int = 0,
    is_noised: bool = False,
) -> FoundTail:
    """The lexicon of a store's train people and of a list.

    It is of the list alone for a private run, and where noise hides (`is_noised`) who typed what
    stands beside it. `least_people` and errors are those of `trained_here.count_tail`. Raises
    `ExportError` if the list is needed and not there, or the store has another vocabulary.
    """
    if word_list is None:
        instead = "Give a public list with --word-list."
        private_runs.refuse(directory, "words counted from", instead)
        if is_noised:
            raise ExportError(
                f"--tail: words that exact counts of people choose would say what the noise of "
                f"--noise-multiplier hides. {instead}"
            )
    elif is_noised or private_runs.is_private(directory):
        known = read_word_list(word_list, vocabulary.rules)
        try:
            return FoundTail(listed(known, vocabulary, size=size))
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
    least_people = trained_here.people_needed(store, least_people)
    lexicon = trained_here.count_tail(store, size, word_list, least_people=least_people)
    return FoundTail(lexicon, people, least_people)


def build(
    run: TrainedRun, store_directory: pathlib.Path, size: int, word_list: pathlib.Path | None
) -> TailPart:
    """The file of what `find` finds."""
    found = find(run.directory, run.vocabulary, store_directory, size, word_list)
    data = tail_file.encode(found.lexicon)
    return TailPart(
        data,
        TailFacts(
            words=len(found.lexicon),
            counted_on=found.counted_on,
            least_people=found.least_people,
            word_list=word_list.name if word_list else None,
            word_list_sha256=manifest.sha256(word_list.read_bytes()) if word_list else None,
            bytes=len(data),
            sha256=manifest.sha256(data),
        ),
    )
