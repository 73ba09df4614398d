"""Are the tests green by luck? Runs the quick ones again and again, and prints a table.

python -m tools.soak --times=20 --out=build/soak.json

Every run draws its own examples (hypothesis, a random seed), and every fourth one has two busy
loops beside it, which take the cores from it; `--busy-every=0` leaves them out on a machine that
has other work. What was taken is measured. Interrupted it prints what it has, and started again it
goes on where `--out` ends, as long as the commit is the same. The exit code is 5 unless all runs
were green.
"""

import argparse
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from tff_keyboard.host.text_table import aligned
from tff_keyboard.storage import files
from tools.checkout import commit

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUSY_EVERY = 4  # runs; five of twenty
BUSY_LOOPS = 2
PYTEST = ("-m", "pytest", "-n", "2", "--dist=loadfile", "--no-loadscope-reorder", "-m", "not slow")

_CPU_LINE = pathlib.Path("/proc/stat")
_COUNT = re.compile(r"(\d+) (passed|failed|error|skipped)")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the tests.

    Attributes:
      seed: Seed of hypothesis.
      busy: Whether two busy loops ran beside it.
      passed, failed: Tests; errors are failures.
      seconds: Seconds of wall time.
      taken: Cores that other processes had meanwhile, on average.
      failures: Node ids of what failed.
    """

    seed: int
    busy: bool
    passed: int
    failed: int
    seconds: float
    taken: float
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
    with tempfile.TemporaryFile("w+") as log, busy_loops(BUSY_LOOPS if busy else 0):
        start, others = time.monotonic(), _cpu_of_others()
        code = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT).returncode
        seconds = time.monotonic() - start
        taken = (_cpu_of_others() - others) / seconds
        log.seek(0)
        passed, failed, failures = read_output(log.read())
    if code and not failed:
        failed, failures = 1, (f"pytest ended with {code}",)
    return Run(seed, busy, passed, failed, round(seconds, 1), round(taken, 2), failures)


def _cpu_of_others() -> float:
    """CPU seconds of this machine since it started, without those of finished children."""
    user, nice, system = _CPU_LINE.read_text().split()[1:4]
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = int(user) + int(nice) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK") - ours.ru_utime - ours.ru_stime


def table(runs: Sequence[Run]) -> str:
    """A row a run, what failed below, a sum at the end."""
    rows = [["run", "seed", "busy loops", "cores of others", "passed", "failed", "minutes"]]
    for number, run in enumerate(runs, start=1):
        loops = BUSY_LOOPS if run.busy else 0
        tests = (str(run.passed), str(run.failed), f"{run.seconds / 60:.1f}")
        rows.append([str(number), str(run.seed), str(loops), f"{run.taken:.1f}", *tests])
    failures = [f"run {n}: {name}" for n, run in enumerate(runs, 1) for name in run.failures]
    green = sum(run.is_green for run in runs)
    return "\n".join([aligned(rows), *failures, f"{green} of {len(runs)} runs were green"])


def earlier_runs(path: pathlib.Path | None) -> list[Run]:
    """What `path` holds of this commit on as many cores; nothing where there is no such file."""
    if path is None or not path.exists():
        return []
    report = json.loads(path.read_text())
    if (report["commit"], report["cpus"]) != (commit(), os.cpu_count()):
        return []
    return [Run(**row | {"failures": tuple(row["failures"])}) for row in report["runs"]]


def write(path: pathlib.Path, runs: Sequence[Run]) -> None:
    """Keeps the runs, whole or not at all."""
    report = {
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "cpus": os.cpu_count(),
        "runs": [dataclasses.asdict(run) for run in runs],
    }
    files.make_directory(path.parent)
    files.write_atomically(path, [json.dumps(report, indent=1).encode(), b"\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--out", type=pathlib.Path, help="JSON file with a row a run")
    parser.add_argument(
        "--busy-every", type=int, default=BUSY_EVERY, help="which runs have busy loops; 0 for none"
    )
    parser.add_argument("tests", nargs="*", help="what pytest is given; all if left out")
    arguments = parser.parse_args()
    runs = earlier_runs(arguments.out)
    with contextlib.suppress(KeyboardInterrupt):
        for number in range(len(runs) + 1, arguments.times + 1):
            busy = arguments.busy_every > 0 and number % arguments.busy_every == 0
            runs.append(run_tests(arguments.tests, busy=busy))
            if arguments.out:
                write(arguments.out, runs)
            state = "green" if runs[-1].is_green else "RED"
            print(f"{number}/{arguments.times} {state} {runs[-1].seconds:.0f} s", flush=True)
    print(table(runs))
    if not runs or not all(run.is_green for run in runs):
        sys.exit(5)


if __name__ == "__main__":
    main()
