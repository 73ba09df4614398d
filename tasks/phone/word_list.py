"""Writes a word list for HeliBoard and other keyboards based on AOSP.

tff-keyboard word-list runs/sms --out=en.combined

The list has the words of the model's vocabulary, with the frequencies that the model expects in the
text of a client store (docs/phone/aosp.md).
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import Positional, TaskOptions
from tff_keyboard.host import quiet
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError
from tff_keyboard.storage.model_description import read_description
from tff_keyboard_app.aosp.aosp_options import AospOptions
from tflite_export.gate import texts


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(AospOptions, TaskOptions):
    """Flags of `word-list`."""

    run_dir: Annotated[pathlib.Path, Positional("a run directory, or an exported .tflite file")]


def run(options: Options) -> None:
    """Writes the list and prints a summary."""
    model = shipped_files.found(options.run_dir)
    options.check(model, options.out)
    if model.suffix != ".tflite":
        read_description(model)
        quiet.import_tensorflow()
    elif options.store is None:
        raise UsageError("Pass --store=DIR: a .tflite file does not name a client store.")
    from tff_keyboard_app.aosp import aosp_export

    store = texts.store_of(model, options.store)
    print("\n".join(aosp_export.export(model, store, options.out, options)))
