"""Says what to train on a client store: which config, how many rounds and minutes, what to expect.

tff-keyboard advise data/mine

It follows from the store's data card, what was measured on corpora of about that size, and half a
second of matrix products on this machine. `train --store` without --config does what is advised.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import TaskOptions, Words
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import machine_speed
from tff_keyboard.study.advice import advice
from tff_keyboard.study.advice.advice_text import advice_text, unused_workdir


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    store: Annotated[pathlib.Path, Words("a client store")]


def run(options: Options) -> None:
    """Reads the data card and prints."""
    found = advice.advise(read_card(options.store), str(options.store))
    workdir = str(unused_workdir(options.store))
    print(advice_text(found, machine_speed.measured(), workdir))
