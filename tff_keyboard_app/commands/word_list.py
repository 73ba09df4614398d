"""Writes a word list for HeliBoard and other keyboards based on AOSP.

tff-keyboard word-list runs/sms --out=en.combined

The list has the words of the model's vocabulary, with the frequencies that the model expects in the
text of the store's train clients (docs/phone/aosp.md).
"""

import dataclasses
import pathlib
from typing import Annotated

from absl import flags

from tff_keyboard.command_line.options import (
    Positional,
    Tail,
    TailWordList,
    TaskOptions,
    check_tail,
)
from tff_keyboard.host import quiet
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.storage.model_description import read_description
from tff_keyboard_app.aosp.combined_file import SUFFIX
from tflite_export.export import private_runs
from tflite_export.gate import texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `word-list`."""

    run_dir: Annotated[pathlib.Path, Positional("a run directory, or an exported .tflite file")]
    out: Annotated[pathlib.Path, "File to write. Its name must end in .combined."] = pathlib.Path(
        "words.combined"
    )
    store: Annotated[
        pathlib.Path | None,
        "Client store whose train clients are counted. Default: the store of the training.",
    ] = None
    tail: Tail = 0
    word_list: TailWordList = None
    min_word_users: Annotated[
        int,
        "Minimum number of clients that typed a word. 0: the limit of the store's vocabulary.",
        flags.IntegerParser(0),
    ] = 0

    dictionary: Annotated[
        tuple[pathlib.Path, ...],
        "Personal dictionary whose words and shortcuts are listed, too. Repeatable.",
    ] = ()

    def __post_init__(self) -> None:
        check_tail(self.tail, self.word_list)
        if self.out.suffix != SUFFIX:
            raise UsageError(f"--out must end in {SUFFIX}, got '{self.out.name}'.")


def run(options: Options) -> None:
    """Writes the list and prints a summary."""
    model = shipped_files.locate(options.run_dir)
    private_runs.refuse(model, "sums over", "Use the keyboard of an export instead.")
    if model.suffix != ".tflite":
        read_description(model)
        quiet.import_tensorflow()
    elif options.store is None:
        raise UsageError("Pass --store=DIR: a .tflite file does not name a client store.")
    from tff_keyboard_app.aosp import aosp_export
    from tff_keyboard_app.keyboard import dictionary_files

    dictionary = dictionary_files.entries_of(options.dictionary)

    lines = aosp_export.export(
        model,
        texts.store_of(model, options.store),
        options.out,
        tail=options.tail,
        word_list=options.word_list,
        min_word_users=options.min_word_users,
        dictionary=dictionary,
    )
    print("\n".join(lines))
