"""Prints how many bytes federated training sent: model, rehearsal data, uploads and their total.

tff-keyboard communication RUN_DIR [RUN_DIR ...] [--out=FILE.json]
"""

import dataclasses
import json
import pathlib
from typing import TYPE_CHECKING, Annotated

from ..options import Positional, TaskOptions
from tff_keyboard.host.text_table import aligned

if TYPE_CHECKING:
    from tff_keyboard.evaluation.results.communication import Communication

_HEADER = (
    "run",
    "total GB",
    "down GB",
    "up GB",
    "rounds",
    "uploads/round",
    "upload MB",
    "model MB",
    "rehearsal MB",
    "parameters",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `communication`."""

    run_dirs: Annotated[
        tuple[pathlib.Path, ...], Positional("at least one run directory", min_count=1)
    ]
    out: Annotated[pathlib.Path | None, "Also write a JSON file, with sizes in bytes."] = None


def run(options: Options) -> None:
    """Prints the table, with one row for each run.

    Raises:
      RunDirectoryError: If a path is not the run directory of a federated training, or if it has no
        rounds.
    """
    from tff_keyboard.storage import files

    accounts = {path: _account(path) for path in options.run_dirs}
    print(aligned([_HEADER, *(_row(path, account) for path, account in accounts.items())]))
    print("MB = 10^6 bytes, GB = 10^9 bytes. Rehearsal and upload are per client and round.")
    if options.out:
        rows = [
            {"run": str(path), **dataclasses.asdict(account), "total_bytes": account.total_bytes}
            for path, account in accounts.items()
        ]
        files.write_atomically(options.out, [json.dumps(rows, indent=1).encode(), b"\n"])


def _account(path: pathlib.Path) -> "Communication":
    from tff_keyboard.evaluation.results import communication
    from tff_keyboard.storage.errors import RunDirectoryError
    from tff_keyboard.storage.run_directory import RunDirectory

    directory = RunDirectory.open(path)
    try:
        parameters = communication.num_parameters(directory.path)
    except (OSError, ValueError):
        raise RunDirectoryError(
            f"{directory.model} has no weights because the run is not finished. Run `train` again."
        ) from None
    try:
        return communication.account(directory.all_rows(), parameters=parameters)
    except ValueError as error:
        raise RunDirectoryError(f"{path}: {error}") from None


def _row(path: pathlib.Path, account: "Communication") -> tuple[str, ...]:
    return (
        path.name,
        f"{account.total_bytes / 1e9:.3f}",
        f"{account.bytes_down / 1e9:.3f}",
        f"{account.bytes_up / 1e9:.3f}",
        f"{account.rounds}",
        f"{account.uploads_per_round:.1f}",
        f"{account.upload_bytes / 1e6:.2f}",
        f"{account.model_bytes / 1e6:.2f}",
        f"{account.rehearsal_bytes / 1e6:.3f}",
        f"{account.parameters:,}",
    )
