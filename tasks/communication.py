"""What federated training sent over the network: model, rehearsal, uploads, in all.

tff-keyboard communication RUN_DIR [RUN_DIR ...] [--out=FILE.json]
"""

import dataclasses
import json
import pathlib
import sys
from collections.abc import Sequence

from absl import flags

from tasks import cli, run_results
from tff_keyboard import quiet
from tff_keyboard.storage.run_directory import RunDirectory

FLAGS = flags.FlagValues()  # of this task alone
_OUT = flags.DEFINE_string("out", None, "JSON file, too.", flag_values=FLAGS)

_HEADER = (
    "run",
    "rounds",
    "parameters",
    "model MB",
    "rehearsal MB",
    "uploads/round",
    "upload MB",
    "down GB",
    "up GB",
    "total GB",
)


def run(paths: Sequence[pathlib.Path], out: pathlib.Path | None = None) -> list[dict]:
    """Prints the table, one row a run.

    Args:
      paths: Run directories of `train`.
      out: JSON file to write.

    Returns:
      The rows as plain values, sizes in bytes.

    Raises:
      RunDirectoryError: A path is no run directory, has no rounds, or was not trained federatedly.
    """
    quiet.import_tensorflow_federated()
    from tff_keyboard.evaluation import communication
    from tff_keyboard.storage import files
    from tff_keyboard.storage.errors import RunDirectoryError

    rows, table = [], [_HEADER]
    for path in paths:
        directory = RunDirectory.open(path)
        try:
            account = communication.account(
                directory.rows(), parameters=_parameters(directory.path)
            )
        except ValueError as error:
            raise RunDirectoryError(f"{path}: {error}") from None
        rows.append(
            {"run": str(path), **dataclasses.asdict(account), "total_bytes": account.total_bytes}
        )
        table.append(
            (
                path.name,
                f"{account.rounds}",
                f"{account.parameters:,}",
                f"{account.model_bytes / 1e6:.2f}",
                f"{account.rehearsal_bytes / 1e6:.3f}",
                f"{account.uploads_per_round:.1f}",
                f"{account.upload_bytes / 1e6:.2f}",
                f"{account.bytes_down / 1e9:.3f}",
                f"{account.bytes_up / 1e9:.3f}",
                f"{account.total_bytes / 1e9:.3f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        print("  ".join(cells))
    print("MB = 10^6, GB = 10^9 bytes; rehearsal and upload are of one client in one round.")
    if out:
        files.write_atomically(out, [json.dumps(rows, indent=1).encode(), b"\n"])
    return rows


def _parameters(run_path: pathlib.Path) -> int:
    from tff_keyboard.storage.errors import RunDirectoryError

    try:
        return run_results.num_parameters(run_path)
    except (OSError, ValueError):
        raise RunDirectoryError(
            f"{RunDirectory(run_path).model} holds no weights: the run is not finished. "
            "Run its `train` again."
        ) from None


def main(argv: Sequence[str]) -> None:
    """Parses the flags."""
    if not argv:
        raise cli.UsageError("Give one run directory at least.")
    run([pathlib.Path(path) for path in argv], pathlib.Path(_OUT.value) if _OUT.value else None)


if __name__ == "__main__":
    sys.exit(cli.launch(sys.modules[__name__], sys.argv[1:]))
