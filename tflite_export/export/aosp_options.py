"""What `export` is told of a word list: these fields are flags of the task."""

import dataclasses
import pathlib
from typing import Annotated, Literal

from tff_keyboard.host.option_fields import Range
from tff_keyboard.predictors.aosp.combined_file import SUFFIX
from tff_keyboard.storage.errors import UsageError
from tflite_export.export import private_runs

_OF_LISTS = ("bigrams", "min_word_users", "clip_norm", "noise_multiplier")
_OF_BOTH = ("run_dir", "format", "out", "store", "clients", "tail", "word_list")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AospOptions:
    """How to make a list; the first six fields mean something for a model, too."""

    format: Annotated[Literal["tflite", "aosp"], "A model, or a word list."] = "tflite"
    out: Annotated[
        pathlib.Path | None, "File to write; keyboard.tflite or words.combined if left out."
    ] = None
    store: Annotated[
        pathlib.Path | None,
        "Client store to check or to sum; the one the run was trained on if left out.",
    ] = None
    clients: Annotated[
        Literal["held_out", "validation", "train", "train_later"] | None,
        "Population that the parity gate reads (held_out), or that the word list sums (train).",
    ] = None
    tail: Annotated[
        int, "Words beyond the table to complete, of train people and --word-list.", Range(0)
    ] = 0
    word_list: Annotated[
        pathlib.Path | None, "Public list for --tail, lines of word<TAB>frequency."
    ] = None
    bigrams: Annotated[int, "aosp: most bigrams; 0: what 3 MB hold.", Range(0)] = 0
    min_word_users: Annotated[
        int, "aosp: people who typed a word, at least; 0: as the store's vocabulary.", Range(0)
    ] = 0
    clip_norm: Annotated[float, "aosp: L2 bound on one person's sums; 0: none.", Range(0)] = 0.0
    noise_multiplier: Annotated[
        float, "aosp: standard deviation of the sums' noise / clip norm; 0: no noise.", Range(0)
    ] = 0.0

    def check_flags(self) -> None:
        """Refuses flags that would be ignored, those of a subclass among them.

        Raises:
          UsageError: One is set that has no meaning with `format`, or needs another.
        """
        if self.word_list and not self.tail:
            raise UsageError("--word-list: give the number of words to take of it with --tail.")
        for field in dataclasses.fields(self):
            fits = field.name in _OF_BOTH or (field.name in _OF_LISTS) == (self.format == "aosp")
            if not fits and getattr(self, field.name) != field.default:
                flag = f"--{field.name.replace('_', '-')}"
                raise UsageError(f"{flag} has no meaning with --format={self.format}.")

    def check(self, model: pathlib.Path, out: pathlib.Path) -> None:
        """Refuses what can be refused before anything is read.

        Raises:
          UsageError: Options do not fit together, or `out` is no name for a list.
          ExportError: The run is private, and there is no noise.
        """
        if out.suffix != SUFFIX:
            raise UsageError(f"--out must end in {SUFFIX}, got '{out.name}'.")
        if self.noise_multiplier and not self.clip_norm:
            raise UsageError("--noise-multiplier needs --clip-norm=C, the bound that it is about.")
        if self.noise_multiplier and self.min_word_users:
            raise UsageError(
                "--min-word-users: who typed a word is counted exactly, which noise on the sums "
                "does not hide. Leave it out, or the noise."
            )
        if not self.noise_multiplier:
            instead = "Give --clip-norm and --noise-multiplier."
            private_runs.refuse(model, "sums over", instead)
