"""Counts how a keyboard handles misspelled words.

tff-keyboard spelling models/base/keyboard.tflite --pairs=pairs.tsv
tff-keyboard spelling models/base/keyboard.tflite --pairs=pairs.tsv --context="it is" --json

The file has one pair per line: the typed word, a tab, the intended word. If both are the same, the
pair tests that the keyboard leaves a correct word alone. Each word is typed after the context. The
task then reads the strip before the space, and counts: words that the space corrects to the
intended word, words that it changes to another word, intended words that are the first suggestion,
and intended words anywhere on the strip.
"""

import dataclasses
import json
import pathlib
from typing import Annotated

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.config.sections.data_config import Language
from tff_keyboard.storage import shipped_files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `spelling`."""

    model: Annotated[pathlib.Path, Positional("a .tflite file")]
    pairs: Annotated[pathlib.Path, "File of pairs, one per line: typed<TAB>intended."]
    context: Annotated[str, "Text before each word."] = ""
    language: Annotated[
        Language | None,
        "Language of the keys. Default: the language of the model.",
    ] = None
    json: Annotated[bool, "Print the counts as one JSON object."] = False


def run(options: Options) -> None:
    """Counts and prints the table.

    Raises:
      DataError: If the file of pairs cannot be read.
      ExportError: If the model cannot be read.
    """
    from tff_keyboard.host.text_table import aligned
    from tff_keyboard_app.keyboard import spelling
    from tff_keyboard_app.keyboard.strip import AppKeyboard
    from tflite_export.runtime.hybrid_keyboard import open_keyboard

    pairs = spelling.read_pairs(options.pairs)
    path = shipped_files.locate(options.model)
    keyboard = AppKeyboard(open_keyboard(path), options.language)
    counts = spelling.count(keyboard, pairs, options.context)
    if options.json:
        print(json.dumps(dataclasses.asdict(counts)))
        return
    rows = [("", "words", "share")]
    if counts.pairs:
        shares = ("corrected", "miscorrected", "first", "on_strip")
        rows.append(("misspelled", f"{counts.pairs:,}", ""))
        rows += [
            (f"  {name.replace('_', ' ')}", f"{n:,}", f"{n / counts.pairs:.1%}")
            for name in shares
            for n in (getattr(counts, name),)
        ]
    if counts.right:
        share = f"{counts.right_changed / counts.right:.2%}"
        rows += [
            ("correct", f"{counts.right:,}", ""),
            ("  changed", f"{counts.right_changed:,}", share),
        ]
    print(aligned(rows, left=1))
