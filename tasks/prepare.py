"""Turns per-user text into a client store: populations by user, vocabulary, data card.

tff-keyboard prepare --out=data/demo                              the synthetic typists
tff-keyboard prepare --input=messages.tsv --out=data/mine         your own: user<TAB>text
tff-keyboard prepare --config=configs/wikitext2.toml              as a config says

A second run with the same inputs and options changes nothing. What happens to bad input is in
docs/data.md.
"""

import dataclasses
import json
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

from absl import flags

from tasks import cli
from tff_keyboard import config as config_lib
from tff_keyboard import quiet
from tff_keyboard.config.data_config import DataConfig

FLAGS = flags.FlagValues()  # of this task alone
_CONFIG = flags.DEFINE_string(
    "config", None, "TOML file; its section [data] counts.", flag_values=FLAGS
)
_INPUT = flags.DEFINE_multi_string(
    "input",
    [],
    "Text instead of `data.input`; may be repeated. Words that are no flags count too.",
    flag_values=FLAGS,
)
_OUT = flags.DEFINE_string(
    "out", None, "Folder of the store; `data.store` if left out.", flag_values=FLAGS
)
_OVERWRITE = flags.DEFINE_bool(
    "overwrite", False, "Replace a store made from something else.", flag_values=FLAGS
)
_SET = flags.DEFINE_multi_string(
    "set", [], "Override `section.key=value`; may be repeated.", flag_values=FLAGS
)


def run(
    data_config: DataConfig, out: pathlib.Path | None = None, *, overwrite: bool = False
) -> dict[str, Any]:
    """Prepares the store and says what is in it.

    Args:
      data_config: Section [data] of a config.
      out: Folder of the store; `data_config.store` when None.
      overwrite: Replaces a store made from other inputs or options.

    Returns:
      The data card.
    """
    quiet.import_tensorflow()
    from tff_keyboard.data.store import prepare

    out = pathlib.Path(data_config.store) if out is None else out
    start = time.monotonic()
    prepared = prepare.prepare(data_config, out, overwrite=overwrite)
    if prepared.was_up_to_date:
        print(f"{out}: up to date, nothing to do.")
    else:
        print(f"{out}: prepared in {time.monotonic() - start:.1f} s.")
    print(summary(prepared.card))
    return prepared.card


def summary(card: dict[str, Any]) -> str:
    """A data card as a short table."""
    lines = [f"{'':12}{'clients':>9}{'messages':>11}{'words':>13}{'OOV':>8}{'cut':>8}"]
    for name in ("train", "validation", "held_out", "train_later"):
        part = card["populations"].get(name)
        if part:
            lines.append(
                f"{name:12}{part['clients']:9,}{part['messages']:11,}{part['words']:13,}"
                f"{part['oov_rate']:8.1%}{part['truncated_words_rate']:8.1%}"
            )
    vocabulary = card["vocabulary"]
    lines.append(
        f"vocabulary: {vocabulary['rows']:,} rows from {vocabulary['from']} "
        f"({vocabulary['distinct_train_words']:,} distinct words in train). "
        f"cut: words beyond `data.max_length` = {card['options']['max_length']}."
    )
    for title, counts in (("skipped", card["skipped_lines"]), ("dropped", card["dropped"])):
        if counts:
            listed = ", ".join(
                f"{count:,} {reason.replace('_', ' ')}" for reason, count in counts.items()
            )
            lines.append(f"{title}: {listed}")
    return "\n".join(lines)


def with_input(data_config: DataConfig, inputs: Sequence[str]) -> DataConfig:
    """The config with other input; one whose source takes none then reads what was given."""
    if not inputs:
        return data_config
    source = data_config.source
    if source == "synthetic":
        source = "text" if len(inputs) == 1 and pathlib.Path(inputs[0]).is_dir() else "tsv"
    return dataclasses.replace(data_config, source=source, input=tuple(inputs))


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    overrides = list(_SET.value)
    inputs = [*_INPUT.value, *argv]
    if _OUT.value:
        overrides.append(f"data.store={json.dumps(_OUT.value)}")
    data_config = with_input(config_lib.load(_CONFIG.value, overrides).data, inputs)
    if inputs and not _OUT.value and not _CONFIG.value:
        raise cli.UsageError("Give --out=FOLDER, where the store of this input is kept.")
    run(data_config, overwrite=_OVERWRITE.value)


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
