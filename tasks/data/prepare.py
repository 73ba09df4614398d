"""Builds a client store from per-user text: populations of clients, a vocabulary and a data card.

tff-keyboard prepare --out=data/demo                               text of synthetic clients
tff-keyboard prepare messages.tsv --out=data/mine          your text, lines of user<TAB>text
tff-keyboard prepare "WhatsApp Chat with Family.txt" --out=data/mine           an exported chat
tff-keyboard prepare posts.csv --out=data/mine --client-column=author --text-column=body
tff-keyboard prepare messages.tsv --out=data/mine --vocabulary=models/base
                                                                   with the vocabulary of a model
tff-keyboard prepare messages.tsv --out=data/mine --set=data.vocabulary_epsilon=2
                                                                   with a private vocabulary
tff-keyboard prepare --config=configs/wikitext2.toml               section [data] of a config

Recognises TSV, CSV, JSON lines, Parquet, and exports of WhatsApp, Telegram, Messenger, Discord,
Slack and SMS Backup & Restore by the file's name and first bytes. A second run with the same inputs
and options does nothing. docs/data.md describes the formats and the handling of invalid input.
"""

import dataclasses
import pathlib
import time
from typing import Annotated

from tff_keyboard import config as config_lib
from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.config.sections.data_config import COLUMN_KEYS, DataConfig
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.sources import formats, open_source
from tff_keyboard.data.store import store_card
from tff_keyboard.host.text_table import next_command
from tff_keyboard.storage.errors import UsageError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `prepare`."""

    inputs: Annotated[
        tuple[str, ...], Positional("text files or folders; they replace `data.input`")
    ] = ()
    config: Annotated[pathlib.Path | None, "TOML file. Only its section [data] is used."] = None
    client_column: Annotated[
        str, "Column of the client: its name, or its position from 1 (`data.client_column`)."
    ] = ""
    text_column: Annotated[str, "Column of the text (`data.text_column`)."] = ""
    time_column: Annotated[
        str, "Column of the time; messages are sorted by it (`data.time_column`)."
    ] = ""
    out: Annotated[pathlib.Path | None, "Folder of the store. Default: `data.store`."] = None
    vocabulary: Annotated[
        str,
        "Use the vocabulary of this model, run or file, to fine-tune that model "
        "(`data.vocabulary_path`).",
    ] = ""
    overwrite: Annotated[bool, "Replace a store that was built from other input."] = False
    set: Annotated[tuple[str, ...], "Override a config key: `section.key=value`. Repeatable."] = ()

    def data_config(self) -> DataConfig:
        """Returns section [data] of the config, with these options applied.

        Raises:
          UsageError: If there is input, but no folder for the store.
        """
        if self.inputs and not self.out and not self.config:
            raise UsageError("Pass --out=FOLDER, the folder for the client store.")
        overrides = list(self.set)
        if self.out:
            overrides.append(config_lib.override("data.store", str(self.out)))
        if self.vocabulary:
            overrides.append(config_lib.override("data.vocabulary_path", self.vocabulary))
        for name in COLUMN_KEYS:
            if getattr(self, name):
                overrides.append(config_lib.override(f"data.{name}", getattr(self, name)))
        data = config_lib.load(self.config, overrides).data
        if not self.inputs:
            return data
        source = data.source
        if source == "synthetic":  # it takes no input
            paths = [open_source.expand_path(name, "the input") for name in self.inputs]
            source = formats.common_format(paths, has_columns=data.has_columns)
        try:
            return dataclasses.replace(data, source=source, input=self.inputs)
        except ValueError as error:
            raise UsageError(str(error)) from None


def run(options: Options) -> None:
    """Prepares the store and prints a summary."""
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
    if remark := store_card.remark_on_held_out(prepared.card["populations"]):
        print(f"Note: {remark}")
    print(next_command("advise", data_config.store))
