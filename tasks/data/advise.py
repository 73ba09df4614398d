"""Says what to train on a client store: which config, how many rounds and minutes, what to expect.

tff-keyboard advise data/mine

The advice follows from the store's data card and from what was measured on corpora of about that
size. The last lines are the commands to run next.
"""

import dataclasses
import os
import pathlib
from typing import Annotated

from ..options import Range, TaskOptions, Words
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.study.advice import advice
from tff_keyboard.study.advice.advice_text import advice_text, unused_workdir


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    store: Annotated[pathlib.Path, Words("a client store")]
    cores: Annotated[
        int, "Cores of the machine that trains; 0 means as many as this one has.", Range(0)
    ] = 0


def run(options: Options) -> None:
    """Reads the data card and prints."""
    cores = options.cores or len(os.sched_getaffinity(0))
    found = advice.advise(read_card(options.store), cores=cores)
    print(advice_text(found, str(options.store), str(unused_workdir(options.store))))
