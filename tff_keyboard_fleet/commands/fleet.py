"""Shows the progress of a training with devices: devices, rounds, throughput, time left.

tff-keyboard fleet runs/fleet

Reads the files of `serve-rounds`, during the training or afterwards, and changes nothing.
"""

import dataclasses
import pathlib
from typing import Annotated

from tff_keyboard.command_line.options import Positional, TaskOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Arguments of `fleet`."""

    run_dir: Annotated[pathlib.Path, Positional("a run directory of serve-rounds")]


def run(options: Options) -> None:
    """Prints the status.

    Raises:
      RunDirectoryError: If there is no run, or if it was not trained with `serve-rounds`.
    """
    from tff_keyboard import config as config_lib
    from tff_keyboard.host.text_table import aligned
    from tff_keyboard.storage.run_directory import RunDirectory
    from tff_keyboard_fleet.round_server.status import read_status

    run_directory = RunDirectory.open(options.run_dir)
    train = config_lib.load_of_run(run_directory.config_path).train
    status = read_status(run_directory.round_server)
    print(aligned(status.lines(train.rounds, train.clients_per_round), left=2))
