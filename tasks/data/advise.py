"""Recommends what to train on a client store: config, rounds, expected minutes and recall.

tff-keyboard advise data/mine

The recommendation is based on the store's data card, on measurements with corpora of similar size,
and on half a second of matrix products on this machine. `train --store` without --config uses the
recommended config.
"""

import dataclasses
import pathlib
from typing import Annotated

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import machine_speed
from tff_keyboard.training.advice import advice
from tff_keyboard.training.advice.advice_text import advice_text, unused_workdir


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Arguments of `advise`."""

    store: Annotated[pathlib.Path, Positional("a client store")]


def run(options: Options) -> None:
    """Reads the data card and prints the advice."""
    recommendation = advice.advise(read_card(options.store), str(options.store))
    workdir = str(unused_workdir(options.store))
    print(advice_text(recommendation, machine_speed.measured(), workdir))
