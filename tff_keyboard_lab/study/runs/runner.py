"""Trains the runs of a study, each in its own process, several at a time if asked for.

A run is the command `tff-keyboard train`, which `fork_server.py` starts without importing
TensorFlow anew.

A run directory resumes by itself and a finished one is skipped, so an interrupted study continues
where it stopped. A failed run is reported and the others continue, except those that wait for it.
When `may_begin` returns False, all runs that have not begun are left out.
"""

import pathlib
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from tff_keyboard import config as config_lib
from tff_keyboard.config import rounds_of_cosines
from tff_keyboard.host.interruption import Interrupted, Interruption, SignalReceived
from tff_keyboard.host.progress import Progress
from tff_keyboard.storage import errors, files, metrics_rows, model_description
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard_lab.study.plan.plan import Run

_INTERRUPTED = {128 + number: number for number in (signal.SIGINT, signal.SIGTERM)}
_POLL_SECONDS = 0.5


class Command(Protocol):
    """A command that was started, such as a `subprocess.Popen`."""

    def poll(self) -> int | None:
        """Returns the exit code; None while the command runs."""

    def terminate(self) -> None:
        """Sends SIGTERM."""

    def wait(self) -> int:
        """Waits for the end, and returns the exit code."""


# Starts `tff-keyboard` with arguments; its output is appended to a file.
Start: TypeAlias = Callable[[Sequence[str], pathlib.Path], Command]


def is_finished(run: Run) -> bool:
    """Returns whether the run directory has all rounds and the model of exactly this config.

    The model alone is not enough: a run that continues with more rounds still has its earlier
    model, which is of fewer rounds.
    """
    directory = RunDirectory(run.path)
    try:
        before = config_lib.to_dict(config_lib.load_of_run(directory.config_path))
        rows = directory.rows()
        _, description = model_description.read_description(run.path)
    except (errors.ConfigError, errors.RunDirectoryError, errors.SavedModelError, OSError):
        return False
    requested = config_lib.to_dict(run.config)
    for values in (before, requested):
        values.pop("execution")  # changes no results beyond rounding
    if before != requested or not rows or not directory.weights.is_file():
        return False
    rounds = metrics_rows.round_of(rows[-1])
    has_stopped = description.get("stopped_early") is True
    return description.get("rounds") == rounds and (
        rounds >= run.config.train.rounds or has_stopped
    )


def rounds_done(run: Run) -> int:
    """Returns the number of rounds whose metrics are on disk."""
    try:
        return len(RunDirectory(run.path).rows())
    except errors.RunDirectoryError:
        return 0


def log_of(run: Run) -> pathlib.Path:
    """Returns the log file of the run's process, next to the run directory."""
    return run.path.with_name(f"{run.path.name}.log")


class Missing(NamedTuple):
    """The runs that are not finished."""

    failed: list[Run]  # runs that failed, or waited for a failed run
    left_out: list[Run]  # runs that `may_begin` did not allow


def train_all(
    runs: Sequence[Run],
    *,
    jobs: int = 1,
    ended: Callable[[Run], None] = lambda run: None,
    may_begin: Callable[[], bool] = lambda: True,
    start: Start,
) -> Missing:
    """Trains the runs that are not finished.

    Args:
      runs: Runs from `plan.runs_of`: a run comes after the run that it waits for.
      jobs: Number of runs at a time.
      ended: Called with each finished run, including those that were finished before.
      may_begin: Asked before each process. After it returns False, no other process begins.
      start: Starts a command, such as `ForkServer.start`.

    Raises:
      SignalReceived: If this process or a training was interrupted. All have saved their rounds.
    """
    work = _Work(list(runs), ended, may_begin)
    pool = _Pool(jobs, start)
    with Interruption() as signals:
        try:
            with signals.at_once():
                _work_off(work, pool, runs)
        except Interrupted as interrupted:
            raise SignalReceived(
                interrupted.signal_number,
                f"with {len(work.finished)} of {len(runs)} runs finished; the others are saved",
            ) from None
        finally:
            pool.stop()
    return Missing(work.failed, work.left_out)


def _work_off(work: "_Work", pool: "_Pool", runs: Sequence[Run]) -> None:
    """Works until no run is left, and shows the progress of all runs together."""
    total = sum(run.config.train.rounds for run in runs)
    rounds_of_run = {run.path: rounds_done(run) for run in runs}
    with Progress("study", total=total, unit="rounds") as line:
        while work.waiting or pool.working:
            while not pool.is_full and (run := work.next()):
                pool.start(run)
            for run, code in pool.collect():
                if code in _INTERRUPTED:
                    raise Interrupted(_INTERRUPTED[code])
                work.report(run, code)
            rounds_of_run |= {run.path: rounds_done(run) for run, _ in pool.working}
            # An early end counts as the whole run.
            ends = {run.path: run.config.train.rounds for run in runs if run.path in work.finished}
            line.update(
                sum((rounds_of_run | ends).values()), f"{len(work.finished)} of {len(runs)} runs"
            )
            if pool.working:
                time.sleep(_POLL_SECONDS)


class _Work:
    """The runs that are still to be trained, are finished, failed, or are left out."""

    def __init__(
        self, waiting: list[Run], ended: Callable[[Run], None], may_begin: Callable[[], bool]
    ):
        self.waiting = waiting
        self.failed: list[Run] = []
        self.left_out: list[Run] = []
        self.finished: set[pathlib.Path] = set()
        self._ended = ended
        self._may_begin = may_begin

    def next(self) -> Run | None:
        """Returns the next run to train.

        Reports finished runs and leaves out those that cannot be trained.
        """
        kinds = self.failed, self.left_out
        for run in list(self.waiting):
            lost = next((kind for kind in kinds if run.after in {each.path for each in kind}), None)
            if lost is None and run.after is not None and run.after not in self.finished:
                continue
            self.waiting.remove(run)
            if lost is not None:
                lost.append(run)
            elif is_finished(run):
                self._finish(run)
            elif not self.left_out and self._may_begin():
                return run
            else:
                self.left_out.append(run)
        return None

    def report(self, run: Run, code: int) -> None:
        """Reports a training that has ended."""
        if code == 0 and is_finished(run):
            self._finish(run)
        else:
            self.failed.append(run)
            print(
                f"{run.path.name} failed with status {code}; see {log_of(run)}.",
                file=sys.stderr,
                flush=True,
            )

    def _finish(self, run: Run) -> None:
        self.finished.add(run.path)
        self._ended(run)


class _Pool:
    """Training processes, at most `jobs` at a time."""

    def __init__(self, jobs: int, start: Start):
        self._jobs = jobs
        self._start = start
        self.working: list[tuple[Run, Command]] = []

    @property
    def is_full(self) -> bool:
        return len(self.working) >= self._jobs

    def start(self, run: Run) -> None:
        """Starts the process of a run, whose output goes to a log next to it."""
        files.make_directory(run.path.parent)
        # `train` rejects a run that began with another number of rounds.
        length = [f"--set={each}" for each in rounds_of_cosines(run.config)]
        words = [*run.command, *length, *self._node_flags(run)]
        self.working.append((run, self._start(words, log_of(run))))

    def _node_flags(self, run: Run) -> list[str]:
        """Returns flags that give each of several runs one node.

        There are none if the config limits the nodes.
        """
        execution = run.config.execution
        if self._jobs == 1 or execution.engine == "local" or execution.cluster.max_nodes:
            return []
        return ["--set=execution.cluster.max_nodes=1"]

    def collect(self) -> list[tuple[Run, int]]:
        """Returns the runs that have ended since the last call, with their exit codes."""
        codes = [(run, process, process.poll()) for run, process in self.working]
        self.working = [(run, process) for run, process, code in codes if code is None]
        return [(run, code) for run, _, code in codes if code is not None]

    def stop(self) -> None:
        """Ends the remaining trainings with SIGTERM, which lets them resume, and waits for them."""
        for _, process in self.working:
            process.terminate()
        for _, process in self.working:
            process.wait()
        self.working = []
