"""Writes your words as a file to read and edit, from other keyboards or from learned words.

tff-keyboard dictionary gboard.zip swiftkey.json --out=mine.txt
tff-keyboard dictionary words.cache --model=models/base/keyboard.tflite --out=mine.txt
tff-keyboard play models/base/keyboard.tflite --dictionary=mine.txt

Reads the personal dictionary of Gboard (its archive), SwiftKey (its JSON) or Android (XML), text
with a word in each line, and the file of `play --cache`. Of learned words, those are written that
the model does not know and its strip offers. A line of the result is
`shortcut<TAB>word<TAB>language`, as in the file of Gboard; if --out ends in .zip, it is an archive
like that of Gboard. Only you can read the file. No training uses it.
"""

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Annotated

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import UsageError

if TYPE_CHECKING:
    from tff_keyboard_app.keyboard import dictionary_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `dictionary`."""

    files: Annotated[tuple[pathlib.Path, ...], Positional("dictionaries and word caches", 1)]
    out: Annotated[
        pathlib.Path, "File to write: text, or an archive like Gboard's if it ends in .zip."
    ]
    model: Annotated[
        pathlib.Path | None,
        "Exported .tflite file that learned the words of a cache. Only a cache needs it.",
    ] = None


def run(options: Options) -> None:
    """Writes the file and prints how many entries it has.

    Raises:
      DataError: If a file cannot be read.
      UsageError: If a cache has no model, or the output is one of the files.
    """
    from tff_keyboard_app.keyboard import cache_file, dictionary_files

    if any(path.absolute() == options.out.absolute() for path in options.files):
        raise UsageError(f"--out={options.out}: is one of the files to read. Choose another name.")
    entries: dict[dictionary_files.Entry, None] = {}
    for path in options.files:
        if cache_file.is_cache(path):
            dictionary = dictionary_files.Dictionary(tuple(learned(path, options.model)), 0)
        else:
            dictionary = dictionary_files.read(path)
        entries |= dict.fromkeys(dictionary.entries)
        remark = f", {dictionary.skipped:,} more are no words" if dictionary.skipped else ""
        print(f"{path}: {len(dictionary.entries):,} entries{remark}")
    dictionary_files.write(entries, options.out)
    shortcuts = sum(bool(entry.shortcut) for entry in entries)
    print(f"{options.out}: {len(entries) - shortcuts:,} words and {shortcuts:,} shortcuts")


def learned(path: pathlib.Path, model: pathlib.Path | None) -> list["dictionary_files.Entry"]:
    """Returns the words of a cache that a model does not know and its strip offers.

    Raises:
      DataError: If the cache cannot be read.
      UsageError: If there is no model.
    """
    from tff_keyboard_app.keyboard import cache_file
    from tff_keyboard_app.keyboard.dictionary_files import Entry
    from tff_keyboard_app.keyboard.strip import AppKeyboard
    from tff_keyboard_app.keyboard.user_history import UserHistory
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    if model is None:
        raise UsageError(f"{path}: is a word cache. Pass --model=FILE.tflite, which learned it.")
    cache = cache_file.load(path)
    predictor = open_keyboard(shipped_files.locate(model), cache=cache)
    owner = UserHistory([predictor], cache)
    keyboard = AppKeyboard(predictor)
    return [Entry(word) for word, _ in owner.personal_dictionary() if keyboard.offers(word)]
