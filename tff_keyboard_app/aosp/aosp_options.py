"""Options of a word list: the flags of `tff-keyboard word-list`."""

import dataclasses
import pathlib
from typing import Annotated, Literal

from absl import flags

from tff_keyboard.storage.errors import UsageError
from tff_keyboard_app.aosp.combined_file import SUFFIX
from tflite_export.export import private_runs


@dataclasses.dataclass(frozen=True, kw_only=True)
class AospOptions:
    """How to make a list. The fields are the flags of `tff-keyboard word-list`."""

    out: Annotated[pathlib.Path, "File to write. Its name must end in .combined."] = pathlib.Path(
        "words.combined"
    )
    store: Annotated[
        pathlib.Path | None,
        "Client store whose text is counted. Default: the store of the training.",
    ] = None
    clients: Annotated[
        Literal["held_out", "validation", "train", "train_later"],
        "Population whose text is counted.",
    ] = "train"
    tail: Annotated[
        int,
        "Number of words outside the vocabulary to list, from train clients and --word-list.",
        flags.IntegerParser(0),
    ] = 0
    word_list: Annotated[
        pathlib.Path | None, "Public word list for --tail, with lines of word<TAB>frequency."
    ] = None
    bigrams: Annotated[
        int, "Maximum number of bigrams. 0: as many as fit into 3 MB.", flags.IntegerParser(0)
    ] = 0
    min_word_users: Annotated[
        int,
        "Minimum number of clients that typed a word. 0: the limit of the store's vocabulary.",
        flags.IntegerParser(0),
    ] = 0

    def check(self, model: pathlib.Path, out: pathlib.Path) -> None:
        """Rejects invalid options before anything is read.

        Raises:
          UsageError: If options contradict each other, or if `out` does not end in .combined.
          ExportError: If the run is private.
        """
        if self.word_list and not self.tail:
            raise UsageError(
                "--word-list requires --tail, the number of words to take from the list."
            )
        if out.suffix != SUFFIX:
            raise UsageError(f"--out must end in {SUFFIX}, got '{out.name}'.")
        private_runs.refuse(model, "sums over", "Use the keyboard of an export instead.")
