r"""Kills a training with SIGKILL at random moments and compares it with one that was not disturbed.

python -m tff_keyboard_lab.tools.kill_test --kills=10 --workdir=/tmp/kills -- \
    tff-keyboard train --config=configs/demo.toml --workdir={run}

`{run}` in the command becomes a run directory. The first run is not disturbed, and is timed. The
second is killed `--kills` times, at moments drawn from start-up and training, and then runs to its
end. Weights, metrics and the newest checkpoint must be equal bit by bit, and no process that the
killed trainings started may be left. Prints one JSON object; the exit code is 0 if all is equal.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from tff_keyboard.storage import names, npz
from tff_keyboard_lab.tools import process_tree

COMPARED = (f"{names.MODEL}/*", names.METRICS, names.METRICS_TABLE, names.LEDGER)


def digests(run: pathlib.Path) -> dict[str, str]:
    """Returns the SHA-256 of each file that must not depend on kills, by name.

    For .npz files it is the SHA-256 of the arrays.
    """
    paths = sorted(path for pattern in COMPARED for path in run.glob(pattern) if path.is_file())
    paths += sorted((run / names.CHECKPOINTS).glob("*.checkpoint"))[-1:]
    return {str(path.relative_to(run)): _digest(path) for path in paths}


def _digest(path: pathlib.Path) -> str:
    """Returns the SHA-256 of a file's content; for an archive, of its arrays."""
    checksum = hashlib.sha256()
    if path.suffix == ".npz":  # the archive contains dates
        for name, array in sorted(npz.read_arrays(path).items()):
            checksum.update(f"{name}{array.dtype.str}{array.shape}".encode())
            checksum.update(array.tobytes())
    else:
        checksum.update(path.read_bytes())
    return checksum.hexdigest()


def rounds_done(run: pathlib.Path) -> int:
    path = run / names.METRICS
    return path.read_bytes().count(b"\n") if path.exists() else 0


def start(command: Sequence[str], run: pathlib.Path, log: pathlib.Path) -> subprocess.Popen:
    words = [word.replace("{run}", str(run)) for word in command]
    with log.open("ab") as file:
        return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=file, stderr=file)


def run_undisturbed(
    command: Sequence[str], run: pathlib.Path, log: pathlib.Path
) -> tuple[float, float]:
    """Runs to the end, and returns the seconds until the first round was on disk, and in total."""
    began = time.monotonic()
    process = start(command, run, log)
    first_round = None
    while process.poll() is None:
        if first_round is None and rounds_done(run):
            first_round = time.monotonic() - began
        time.sleep(0.02)
    if process.returncode:
        sys.exit(f"The command failed with status {process.returncode}; see {log}.")
    seconds = time.monotonic() - began
    return first_round or seconds, seconds


def kill(process: subprocess.Popen) -> list[int]:
    """Kills a process, and returns its descendants that still run after 5 seconds."""
    below = process_tree.descendants(process.pid)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline and any(map(process_tree.is_running, below)):
        time.sleep(0.02)
    return [pid for pid in below if process_tree.is_running(pid)]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workdir", type=pathlib.Path, required=True, help="run directory; must be new or empty"
    )
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument(
        "--seed",
        type=int,
        default=None,
        help="seed of the moments of the kills; default: the current time",
    )
    parser.add_argument(
        "command", nargs="+", help="training command; {run} stands for the run directory"
    )
    flags = parser.parse_args()
    if not any("{run}" in word for word in flags.command):
        parser.error("the command must have {run} in place of the run directory")
    alone, killed = flags.workdir / "alone", flags.workdir / "killed"
    if alone.exists() or killed.exists():
        parser.error(f"{flags.workdir} has runs already; pass another --workdir")
    flags.workdir.mkdir(parents=True, exist_ok=True)
    log = flags.workdir / "log.txt"
    seed = time.time_ns() if flags.seed is None else flags.seed
    generator = random.Random(seed)

    startup_seconds, total_seconds = run_undisturbed(flags.command, alone, log)
    share = (total_seconds - startup_seconds) / (flags.kills + 1)
    kills: list[dict[str, float]] = []
    process_ids: list[int] = []
    while len(kills) < flags.kills:
        before = rounds_done(killed)
        began = time.monotonic()
        process = start(flags.command, killed, log)
        if generator.random() < 0.2:  # during start-up
            moment = began + generator.uniform(0, startup_seconds)
        else:  # while it trains, as soon as it is further than the one before
            while rounds_done(killed) <= before and process.poll() is None:
                time.sleep(0.02)
            moment = time.monotonic() + generator.uniform(0, 1.5 * share)
        try:
            process.wait(max(moment - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process_ids += kill(process)
            seconds = round(time.monotonic() - began, 3)
            kills.append({"seconds": seconds, "rounds_on_disk": rounds_done(killed)})
            continue
        if process.returncode:
            sys.exit(f"The command failed with status {process.returncode}; see {log}.")
        break  # it ended before the last kill
    if len(kills) == flags.kills:
        run_undisturbed(flags.command, killed, log)

    expected, actual = digests(alone), digests(killed)
    different = sorted(
        name for name in {*expected, *actual} if expected.get(name) != actual.get(name)
    )
    for pid in process_ids:
        os.kill(pid, signal.SIGKILL)
    report = {
        "identical": not different,
        "different": different,
        "kills": kills,
        "processes_left": len(process_ids),
        "rounds": rounds_done(alone),
        "compared": sorted(expected),
        "seconds_alone": round(total_seconds, 1),
        "seed": seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.date.today().isoformat(),
    }
    print(json.dumps(report, indent=2))
    if len(kills) < flags.kills:
        print(f"Only {len(kills)} kills fell into the training: give it more rounds.")
    return 0 if not different and not process_ids and len(kills) == flags.kills else 1


if __name__ == "__main__":
    sys.exit(main())
