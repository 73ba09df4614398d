r"""Measures how the resident memory of a training and its workers grows in each round.

python -m tff_keyboard_lab.benchmarks.scale.memory_growth --workdir=/tmp/memory --warm-up=20 -- \
    tff-keyboard train --config=configs/demo.toml --workdir={run} --set=train.rounds=100

`{run}` in the command becomes a run directory. Memory is read from /proc whenever a round gets
its row in `metrics.jsonl`. Prints one JSON object with, for each process, MB (10^6 bytes) at the
end of the warm-up and at the end, and the least-squares slope in MB a round between. The exit
code is 0 if each slope is below --limit.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

import numpy as np

from tff_keyboard.storage import names
from tff_keyboard_lab.tools import process_tree


def slope(rounds: list[int], values: list[float]) -> float:
    """Returns the slope of the least-squares line, in units of `values` a round.

    >>> round(slope([1, 2, 3], [10.0, 12.0, 14.0]), 6)
    2.0
    """
    return float(np.polyfit(rounds, values, 1)[0])


def sample(trainer: int) -> dict[str, float]:
    """Returns MB of the training process and of each TFF worker below it."""
    memory = {"trainer": process_tree.resident_megabytes(trainer)}
    below = process_tree.descendants(trainer)
    workers = [pid for pid in below if process_tree.name(pid).startswith("worker_binary")]
    for number, pid in enumerate(sorted(workers)):
        memory[f"worker {number}"] = process_tree.resident_megabytes(pid)
    return memory


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--workdir", type=pathlib.Path, required=True, help="run directory; must be new or empty"
    )
    parser.add_argument(
        "--warm-up", type=int, default=20, help="number of first rounds that are not measured"
    )
    parser.add_argument(
        "--limit", type=float, default=1.0, help="largest growth of memory, in MB per round"
    )
    parser.add_argument(
        "command", nargs="+", help="training command; {run} stands for the run directory"
    )
    flags = parser.parse_args()
    if not any("{run}" in word for word in flags.command):
        parser.error("the command must have {run} in place of the run directory")
    run = flags.workdir / "run"
    if run.exists():
        parser.error(f"{flags.workdir} has a run already; pass another --workdir")
    flags.workdir.mkdir(parents=True, exist_ok=True)
    words = [word.replace("{run}", str(run)) for word in flags.command]
    metrics = run / names.METRICS
    samples: list[tuple[int, dict[str, float]]] = []
    with (flags.workdir / "log.txt").open("wb") as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while process.poll() is None:
            done = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
            if done and (not samples or done > samples[-1][0]):
                samples.append((done, sample(process.pid)))
            time.sleep(0.02)
    if process.returncode:
        sys.exit(f"The command failed with status {process.returncode}; see {log.name}.")

    counted = [(done, memory) for done, memory in samples if done > flags.warm_up]
    if len(counted) < 10:
        sys.exit(f"{len(counted)} rounds after the warm-up are too few. Train for more rounds.")
    processes = {}
    for who in counted[0][1]:
        rounds = [done for done, memory in counted if memory.get(who)]
        megabytes = [memory[who] for _, memory in counted if memory.get(who)]
        processes[who] = {
            "megabytes_per_round": round(slope(rounds, megabytes), 4),
            "megabytes_after_warm_up": round(megabytes[0], 1),
            "megabytes_at_end": round(megabytes[-1], 1),
        }
    report = {
        "processes": processes,
        "rounds": samples[-1][0],
        "warm_up": flags.warm_up,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "date": datetime.date.today().isoformat(),
    }
    print(json.dumps(report, indent=2))
    grown = [values["megabytes_per_round"] for values in processes.values()]
    return 0 if max(grown) < flags.limit else 1


if __name__ == "__main__":
    sys.exit(main())
