"""Are the tests green by luck? Runs the quick ones again and again, and prints a table.

python -m benchmarks.soak --times=20 --out=docs/results/soak.json

Every run draws its own examples (hypothesis, a random seed), and every fourth one has two busy
loops beside it, which take the cores from it. Interrupted it prints what it has. The exit code is 5
unless all runs were green.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from benchmarks.step import commit
from tff_keyboard.text_table import aligned

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUSY_EVERY = 4  # runs; five of twenty
PYTEST = ("-m", "pytest", "-n", "2", "--dist=loadfile", "--no-loadscope-reorder", "-m", "not slow")

_COUNT = re.compile(r"(\d+) (passed|failed|error|skipped)")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the tests.

    Attributes:
      seed: Of hypothesis.
      busy: Whether two busy loops ran beside it.
      passed, failed: Tests; errors are failures.
      seconds: Of wall time.
      failures: Node ids of what failed.
    """

    seed: int
    busy: bool
    passed: int
    failed: int
    seconds: float
    failures: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        """Whether tests passed and none failed."""
        return self.passed > 0 and not self.failed


def read_output(text: str) -> tuple[int, int, tuple[str, ...]]:
    """`(passed, failed, ids of what failed)` of what pytest printed.

    >>> read_output("FAILED a.py::b - assert 0\\n1 failed, 3 passed, 1 error in 2.0s")
    (3, 2, ('a.py::b',))
    """
    lines = text.rstrip().splitlines()
    summary = next((line for line in reversed(lines) if " in " in line and "pass" in line), "")
    counts = {name: int(count) for count, name in _COUNT.findall(summary)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    return counts.get("passed", 0), failed, tuple(_FAILED.findall(text))


@contextlib.contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Processes that do nothing, as fast as they can."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def run_tests(tests: Sequence[str], *, busy: bool) -> Run:
    """Runs the tests once."""
    seed = secrets.randbelow(2**32)
    command = [sys.executable, *PYTEST, f"--hypothesis-seed={seed}", *tests]
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as log, busy_loops(2 if busy else 0):
        code = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT).returncode
        log.seek(0)
        passed, failed, failures = read_output(log.read())
    if code and not failed:
        failed, failures = 1, (f"pytest ended with {code}",)
    return Run(seed, busy, passed, failed, time.monotonic() - start, failures)


def table(runs: Sequence[Run]) -> str:
    """A row a run, what failed below, a sum at the end."""
    rows = [["run", "seed", "beside it", "passed", "failed", "minutes"]]
    for number, run in enumerate(runs, start=1):
        beside = "2 busy loops" if run.busy else "-"
        minutes = f"{run.seconds / 60:.1f}"
        rows.append([str(number), str(run.seed), beside, str(run.passed), str(run.failed), minutes])
    failures = [f"run {n}: {name}" for n, run in enumerate(runs, 1) for name in run.failures]
    green = sum(run.is_green for run in runs)
    return "\n".join([aligned(rows), *failures, f"{green} of {len(runs)} runs were green"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, help="JSON file with a row a run")
    parser.add_argument("tests", nargs="*", help="what pytest is given; all if left out")
    arguments = parser.parse_args()
    runs: list[Run] = []
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(1, arguments.times + 1):
            runs.append(run_tests(arguments.tests, busy=number % BUSY_EVERY == 0))
            state = "green" if runs[-1].is_green else "RED"
            print(f"{number}/{arguments.times} {state} {runs[-1].seconds:.0f} s", flush=True)
    print(table(runs))
    if arguments.out:
        report = {
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            "cpus": os.cpu_count(),
            "runs": [dataclasses.asdict(run) for run in runs],
        }
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    if not runs or not all(run.is_green for run in runs):
        sys.exit(5)


if __name__ == "__main__":
    main()
