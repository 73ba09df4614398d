"""Turns per-user text into a client store: populations by user, vocabulary, data card.

tff-keyboard prepare --out=data/demo                              the synthetic typists
tff-keyboard prepare --input=messages.tsv --out=data/mine         your own: user<TAB>text
tff-keyboard prepare --input=messages.tsv --out=data/mine --vocabulary=models/base   its words
tff-keyboard prepare --config=configs/wikitext2.toml              as a config says
tff-keyboard prepare --input=messages.tsv --out=data/mine --vocabulary-epsilon=2   private words

A second run with the same inputs and options changes nothing. What happens to bad input is in
docs/data.md.
"""

import dataclasses
import pathlib
import time
from typing import Annotated

from ..options import TaskOptions, Words
from tff_keyboard import config as config_lib
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.store import store_card
from tff_keyboard.host.text_table import next_command
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    inputs: Annotated[tuple[str, ...], Words("text files or folders, instead of `data.input`")] = ()
    config: Annotated[pathlib.Path | None, "TOML file; its section [data] counts."] = None
    input: Annotated[
        tuple[str, ...],
        "Text instead of `data.input`; may be repeated. Words that are not flags count too.",
    ] = ()
    out: Annotated[pathlib.Path | None, "Folder of the store; `data.store` if left out."] = None
    vocabulary: Annotated[
        str,
        "Words of this model, run or file (`data.vocabulary_path`), to train on from there.",
    ] = ""
    vocabulary_epsilon: Annotated[
        float | None, "Choose the words privately, at this price (`data.vocabulary_epsilon`)."
    ] = None
    overwrite: Annotated[bool, "Replace a store made from something else."] = False
    set: Annotated[tuple[str, ...], "Override `section.key=value`; may be repeated."] = ()

    def data_config(self) -> DataConfig:
        """Section [data] of the config, reading what was named here.

        Raises:
          UsageError: Nothing says where the store of the input is kept.
        """
        inputs = (*self.input, *self.inputs)
        if inputs and not self.out and not self.config:
            raise UsageError("Give --out=FOLDER, where the store of this input is kept.")
        overrides = list(self.set)
        if self.out:
            overrides.append(config_lib.override("data.store", str(self.out)))
        if self.vocabulary:
            overrides.append(config_lib.override("data.vocabulary_path", self.vocabulary))
        if self.vocabulary_epsilon is not None:
            overrides.append(f"data.vocabulary_epsilon={self.vocabulary_epsilon}")
        data = config_lib.load(self.config, overrides).data
        if not inputs:
            return data
        source = data.source
        if source == "synthetic":  # which takes no input
            source = "text" if len(inputs) == 1 and pathlib.Path(inputs[0]).is_dir() else "tsv"
        return dataclasses.replace(data, source=source, input=inputs)


def run(options: Options) -> None:
    """Prepares the store and says what is in it."""
    data_config = options.data_config()
    start = time.monotonic()
    prepared = prepare.prepare(
        data_config, pathlib.Path(data_config.store), overwrite=options.overwrite
    )
    if prepared.was_up_to_date:
        print(f"{data_config.store}: up to date, nothing to do.")
    else:
        print(f"{data_config.store}: prepared in {time.monotonic() - start:.1f} s.")
    print(store_card.summary(prepared.card))
    print(next_command("advise", data_config.store))
