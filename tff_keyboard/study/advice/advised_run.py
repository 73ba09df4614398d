"""The config of a training that was given none: what the run recorded, or what is advised."""

import pathlib
from collections.abc import Sequence

from tff_keyboard.config import RunConfig, load_of_run
from tff_keyboard.data.store.store_card import read_card
from tff_keyboard.host import machine_speed
from tff_keyboard.storage.errors import RunDirectoryError, UsageError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.study.advice.advice import advise
from tff_keyboard.study.advice.advice_text import sentence


def begun_or_advised(
    workdir: pathlib.Path, store: pathlib.Path | None, overrides: Sequence[str] = ()
) -> RunConfig:
    """The config; prints a line that says where it is from. `store` may be None for a begun run.

    Advice may change with versions and with the store; a run that has begun keeps its record.
    Raises `RunDirectoryError` if the run began with another store.
    """
    run = RunDirectory(workdir)
    if run.exists():
        config = load_of_run(run.config_path, overrides)
        begun = pathlib.Path(config.data.store)
        if store is not None and store.resolve() != begun.resolve():
            raise RunDirectoryError(
                f"{run.config_path}: this run began with `data.store` = {begun}, not with {store}. "
                "Give another --workdir, or the --store of this run."
            )
        print(f"{workdir}: goes on with the config that it began with.", flush=True)
        return config
    if store is None:
        raise UsageError(
            "Give --store=FOLDER, to train what `tff-keyboard advise FOLDER` says, or "
            "--config=FILE.toml."
        )
    found = advise(read_card(store), str(store), overrides)
    reason = sentence(found, machine_speed.measured())
    print(f"No --config, so as `tff-keyboard advise` says. {reason}", flush=True)
    return found.config
