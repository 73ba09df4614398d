"""Config of a training that was started without one: recorded by the run, or advised."""

import pathlib
from collections.abc import Sequence

from tff_keyboard.config import RunConfig, load_of_run
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import machine_speed
from tff_keyboard.storage.errors import RunDirectoryError, UsageError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.advice.advice import advise
from tff_keyboard.training.advice.advice_text import sentence


def load_or_recommend(
    workdir: pathlib.Path, store: pathlib.Path | None, overrides: Sequence[str] = ()
) -> RunConfig:
    """Returns the config, and prints a line with its origin.

    Advice may change with versions and with the store, so a run that has begun keeps its record.

    Args:
      workdir: The run directory.
      store: The client store; None is possible for a begun run.
      overrides: Config overrides.

    Raises:
      RunDirectoryError: The run began with another store.
    """
    run = RunDirectory(workdir)
    if run.exists():
        config = load_of_run(run.config_path, overrides)
        begun = pathlib.Path(config.data.store)
        if store is not None and store.resolve() != begun.resolve():
            raise RunDirectoryError(
                f"{run.config_path}: this run started with `data.store` = {begun}, not with "
                f"{store}. Pass another --workdir, or the --store of this run."
            )
        print(f"{workdir}: resumes with the config of its first start.", flush=True)
        return config
    if store is None:
        raise UsageError(
            "Pass --store=FOLDER to train as `tff-keyboard advise FOLDER` recommends, or "
            "--config=FILE.toml."
        )
    found = advise(read_card(store), str(store), overrides)
    reason = sentence(found, machine_speed.measured())
    print(f"No --config, so the run follows `tff-keyboard advise`. {reason}", flush=True)
    return found.config
