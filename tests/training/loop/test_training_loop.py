"""The loop: exact resume above all, then best rounds, stops, signals and errors."""

import asyncio
import dataclasses
import gc
import json
import math
import pathlib
import re
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from tests.support import fakes
from tff_keyboard.algorithms.rounds.round_process import RoundInput
from tff_keyboard.storage import metrics_rows, run_directory
from tff_keyboard.training.loop import (
    best_round,
    checkpoints,
    errors,
    release,
    round_clock,
    training_loop,
)

ROOT = pathlib.Path(__file__).parents[3]
ROUNDS = 7


class Crash(BaseException):
    """Stands for the death of the process at this very place."""


class Recorder:
    """A hook, release manager, evaluation and progress that notes calls and can crash."""

    def __init__(self, crash_at=None):
        self.crash_at = crash_at
        self.calls = []

    def note(self, what, round_num):
        self.calls.append((what, round_num))
        if self.crash_at == (what, round_num):
            raise Crash

    def restart_after(self, round_num):
        self.calls.append(("restart_after", round_num))

    def before_release(self, round_num, state, metrics):
        self.note("hook", round_num)
        return {"spent": 0.5 * round_num}

    def evaluate(self, round_num, weights):
        self.note("evaluate", round_num)
        return {"size": np.float32(np.abs(weights).sum())}

    async def release(self, row, round_num):
        self.note("release", round_num)

    def progress(self, done):
        self.note("progress", done.round_num)


class CrashingCheckpoints(checkpoints.CheckpointManager):
    def __init__(self, directory, recorder):
        super().__init__(directory)
        self.recorder = recorder

    async def save(self, program_state, version):
        self.recorder.note("before save", version)
        await super().save(program_state, version)
        self.recorder.note("after save", version)


def train(directory, recorder=None, **options):
    recorder = recorder or Recorder()
    run = run_directory.RunDirectory(directory)
    defaults = dict(
        process=fakes.NumpyProcess(),
        cohort_source=fakes.numpy_cohort,
        total_rounds=ROUNDS,
        checkpoint_manager=CrashingCheckpoints(run.checkpoints, recorder),
        release_managers=[release.MetricsRelease(run.metrics_jsonl, run.metrics_csv), recorder],
        timings_manager=release.TimingsRelease(run.timings_csv, round_clock.TIMING_COLUMNS),
        evaluate=recorder.evaluate,
        evaluate_every=2,
        best_metric=best_round.BestMetric("evaluation/size"),
        checkpoint_every=3,
        hooks=[recorder],
        progress=recorder.progress,
    )
    return training_loop.TrainingLoop(**(defaults | options)).train()


def outcome(directory, result):
    return (
        fakes.digest(result.state),
        fakes.digest(result.best_model_weights),
        repr(result.loop_state),  # NaN is not equal to itself
        (directory / "metrics.jsonl").read_bytes(),
        (directory / "metrics.csv").read_bytes(),
    )


def rows(directory):
    return metrics_rows.read_rows(directory / "metrics.jsonl")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    directory = tmp_path_factory.mktemp("uninterrupted")
    return outcome(directory, train(directory))


def test_computes_the_rounds_of_the_process(tmp_path):
    result = train(tmp_path)
    process = fakes.NumpyProcess()
    state = process.initialize()
    sizes = {}
    for round_num in range(1, ROUNDS + 1):
        state, metrics = process.next(state, fakes.numpy_cohort(round_num).datasets)
        row = rows(tmp_path)[round_num - 1]
        assert row["round"] == round_num
        assert row["client_work/train/loss"] == metrics["client_work"]["train"]["loss"]
        assert row["cohort"] == fakes.numpy_cohort(round_num).facts["cohort"]
        assert row["spent"] == 0.5 * round_num
        if round_num % 2 == 0 or round_num == ROUNDS:
            sizes[round_num] = float(np.float32(np.abs(state.weights).sum()))
            assert row["evaluation/size"] == sizes[round_num]
        else:
            assert "evaluation/size" not in row
    np.testing.assert_array_equal(result.state.weights, state.weights)
    assert result.loop_state.best_round == max(sizes, key=sizes.get)
    assert result.rounds == ROUNDS
    assert result.stop_reason == ""


@pytest.mark.parametrize("round_num", [1, 3, 4, ROUNDS])
@pytest.mark.parametrize(
    "place", ["hook", "evaluate", "release", "before save", "after save", "progress"]
)
def test_resume_is_exact(tmp_path, uninterrupted, place, round_num):
    recorder = Recorder(crash_at=(place, round_num))
    try:
        train(tmp_path, recorder)
        assert recorder.crash_at not in recorder.calls  # nothing there in that round
    except Crash:
        pass
    again = Recorder()
    result = train(tmp_path, again)
    assert outcome(tmp_path, result) == uninterrupted
    timings = (tmp_path / "timings.csv").read_text().splitlines()[1:]
    timed = [int(line.split(",")[0]) for line in timings]
    assert sorted(set(timed)) == timed
    assert set(range(1, ROUNDS + 1)) - set(timed) <= {round_num}
    # The hook was told to forget what the checkpoint does not know.
    assert again.calls[0] == ("restart_after", result.resumed_round)


def test_a_finished_training_computes_nothing(tmp_path, uninterrupted):
    train(tmp_path)
    recorder = Recorder()
    result = train(tmp_path, recorder)
    assert outcome(tmp_path, result) == uninterrupted
    assert {what for what, _ in recorder.calls} == {"restart_after"}
    assert result.resumed_round == ROUNDS


def test_more_rounds_can_be_added(tmp_path):
    longer, grown = tmp_path / "longer", tmp_path / "grown"
    options = dict(evaluate_every=0, best_metric=None)
    expected = outcome(longer, train(longer, total_rounds=9, **options))
    train(grown, total_rounds=4, **options)
    assert outcome(grown, train(grown, total_rounds=9, **options)) == expected
    with pytest.raises(errors.ProgramError, match="9 rounds are done"):
        train(grown, total_rounds=8, **options)


def test_damaged_newest_checkpoint(tmp_path, uninterrupted):
    train(tmp_path)
    newest = max((tmp_path / "checkpoints").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="damaged"):
        result = train(tmp_path)
    assert 0 < result.resumed_round < ROUNDS
    assert outcome(tmp_path, result) == uninterrupted


def evaluation_of(values):
    return lambda round_num, weights: {"value": values[round_num - 1]}


@pytest.mark.parametrize(
    "mode, values, best, last",
    [
        ("max", [1, 3, 2, 2, 9, 9, 9], 2, 4),
        ("min", [5, 4, 3, 2, 1, 0, -1], 7, 7),
        ("max", [math.nan, 1, math.nan, 0.5, 8, 8, 8], 2, 4),
    ],
)
def test_best_round_and_early_stop(tmp_path, mode, values, best, last):
    options = dict(
        evaluate=evaluation_of(values),
        evaluate_every=1,
        best_metric=best_round.BestMetric("evaluation/value", mode, patience=2),
        checkpoint_every=100,
    )
    result = train(tmp_path, **options)
    assert (result.loop_state.best_round, result.rounds) == (best, last)
    assert bool(result.stop_reason) is (last < ROUNDS)
    states = {0: fakes.NumpyProcess().initialize()}
    for round_num in range(1, last + 1):
        data = fakes.numpy_cohort(round_num).datasets
        states[round_num] = fakes.NumpyProcess().next(states[round_num - 1], data).state
    np.testing.assert_array_equal(result.best_model_weights, states[best].weights)
    np.testing.assert_array_equal(result.model_weights, states[last].weights)
    again = train(tmp_path, **options)
    assert (again.rounds, again.resumed_round) == (last, last)
    assert again.stop_reason == result.stop_reason


class Rejecting(fakes.NumpyProcess):
    """Rejects the update of some rounds, as TFF's finalizer does: the model stays."""

    def __init__(self, rejected):
        self.rejected = rejected

    def next(self, state, datasets):
        new_state, metrics = super().next(state, datasets)
        if new_state.rounds in self.rejected:
            new_state = new_state._replace(weights=state.weights)
            metrics["finalizer"]["update_non_finite"] = np.int32(1)
        return fakes.NumpyOutput(new_state, metrics)


def test_rejected_rounds_are_counted_and_bounded(tmp_path):
    result = train(tmp_path / "a", process=Rejecting({2, 3, 5}), max_rejected_in_a_row=3)
    assert result.loop_state.rejected_rounds == 3
    assert [row["rejected"] for row in rows(tmp_path / "a")] == [0, 1, 1, 0, 1, 0, 0]
    for _ in range(2):  # the second time it resumes, and still refuses
        with pytest.raises(errors.ProgramError, match="3 rounds in a row, up to round 5"):
            train(tmp_path / "b", process=Rejecting({3, 4, 5}), max_rejected_in_a_row=3)
    assert len(rows(tmp_path / "b")) == 5


def test_a_run_whose_rounds_were_all_rejected_fails_at_its_end(tmp_path):
    for _ in range(2):  # the second time it resumes a finished run
        with pytest.raises(errors.ProgramError, match="2 rounds in a row, up to round 2"):
            train(tmp_path / "a", process=Rejecting({1, 2}), total_rounds=2)
    result = train(tmp_path / "a", process=Rejecting({1, 2}), total_rounds=3)
    assert result.loop_state.rejected_rounds == 2


PARTS = {"aggregation.rule.type": "a.py:Nan", "model.type": "m.py:Net"}


@pytest.mark.parametrize(
    ("refused", "clients", "parts", "words"),
    [
        (
            0,
            3,
            PARTS,
            r"3 of 3 clients were finite, .* `aggregation\.rule\.type` = 'a\.py:Nan'\.",
        ),
        (1, 3, PARTS, r"2 of 3 clients were finite"),
        (3, 3, PARTS, r"update of each client was NaN .* is `model\.type` = 'm\.py:Net'\."),
        (3, 3, {}, r"update of each client was NaN or infinite\. Lower the learning rates"),
        (0, 0, PARTS, r"no client had data\. Lower `train\.dropout_rate`"),
        (None, 3, {"the process of the program": ""}, "likely cause is the process of the program"),
    ],
)
def test_the_cause_of_rejected_rounds_is_named(tmp_path, refused, clients, parts, words):
    class Refusing(Rejecting):
        def next(self, state, datasets):
            new_state, metrics = super().next(state, datasets)
            if refused is not None:
                metrics["aggregator"] = {"refused_non_finite": np.int32(refused)}
            return fakes.NumpyOutput(new_state, metrics)

    def cohort(round_num):
        found = fakes.numpy_cohort(round_num)
        return found._replace(facts={**found.facts, "clients": clients})

    options = {"process": Refusing({1, 2, 3}), "cohort_source": cohort, "own_parts": parts}
    with pytest.raises(errors.ProgramError, match=words) as error:
        train(tmp_path / "public", **options, max_rejected_in_a_row=3)
    assert "\n" not in str(error.value)
    with pytest.raises(errors.ProgramError, match="at all clients or in their aggregate"):
        train(tmp_path / "private", **options, max_rejected_in_a_row=3, is_private=True)


@pytest.mark.parametrize("first_nan", [1, 3])
def test_weights_that_are_nan_end_a_run_without_a_usable_round(tmp_path, first_nan):
    """Round 2 is the first one with a validation."""

    class Diverging(fakes.NumpyProcess):
        def next(self, state, datasets):
            new_state, metrics = super().next(state, datasets)
            if new_state.rounds >= first_nan:
                new_state = new_state._replace(weights=np.full(3, np.nan))
            return fakes.NumpyOutput(new_state, metrics)

        def get_model_weights(self, state):
            return SimpleNamespace(trainable=[state.weights], non_trainable=[])

    def evaluate(round_num, weights):
        return {"size": float(np.linalg.norm(weights.trainable[0]))}

    options = {"process": Diverging(), "evaluate": evaluate, "own_parts": {"server.type": "s.py:o"}}
    if first_nan == 1:
        with pytest.raises(errors.ProgramError, match=r"after round 2, and .* `server\.type` = 's"):
            train(tmp_path, **options)
        assert len(rows(tmp_path)) == 2
    else:
        result = train(tmp_path, **options)
        assert result.loop_state.best_round == 2
        assert np.isfinite(result.best_model_weights.trainable[0]).all()


@pytest.mark.parametrize("name", ["evaluation", "privacy"])
def test_a_process_cannot_return_metrics_of_the_loop(tmp_path, name):
    class Named(fakes.NumpyProcess):
        def next(self, state, datasets):
            new_state, metrics = super().next(state, datasets)
            return fakes.NumpyOutput(new_state, metrics | {name: {"size": 3.0}})

    with pytest.raises(errors.ProgramError, match=f"a metric '{name}/size', but .* reserved"):
        train(tmp_path, process=Named())
    assert not rows(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_round_that_is_computed(tmp_path, uninterrupted, number):
    class Signalled(fakes.NumpyProcess):
        def next(self, state, datasets):
            if state.rounds == 4:
                signal.raise_signal(number)
                raise AssertionError("the round went on")
            return super().next(state, datasets)

    before = signal.getsignal(number)
    with pytest.raises(errors.TrainingInterrupted) as caught:
        train(tmp_path, process=Signalled())
    assert caught.value.exit_code == 128 + number
    assert "after round 4: rounds 1 to 4 are saved" in str(caught.value)
    assert signal.getsignal(number) is before
    assert outcome(tmp_path, train(tmp_path)) == uninterrupted


def test_a_signal_between_checkpoints_loses_no_round(tmp_path, uninterrupted):
    class Signalled(fakes.NumpyProcess):
        def next(self, state, datasets):
            if state.rounds == 4:
                signal.raise_signal(signal.SIGTERM)
            return super().next(state, datasets)

    with pytest.raises(errors.TrainingInterrupted, match="rounds 1 to 4 are saved"):
        train(tmp_path, process=Signalled(), checkpoint_every=100)
    resumed = []
    result = train(tmp_path, checkpoint_every=100, progress=resumed.append)
    assert resumed[0].resumed_round == 4
    assert outcome(tmp_path, result) == uninterrupted


def test_a_signal_in_the_first_round(tmp_path, uninterrupted):
    class Signalled(fakes.NumpyProcess):
        def next(self, state, datasets):
            signal.raise_signal(signal.SIGINT)
            return super().next(state, datasets)

    with pytest.raises(errors.TrainingInterrupted, match="after round 0: no round is saved"):
        train(tmp_path, process=Signalled())
    assert outcome(tmp_path, train(tmp_path)) == uninterrupted


def test_a_signal_before_a_coroutine_is_awaited_is_no_warning(tmp_path):
    class Signalled(fakes.NumpyProcess):
        def next(self, state, datasets):
            unused = asyncio.sleep(0)  # as TFF makes and awaits them for its workers
            signal.raise_signal(signal.SIGINT)
            raise AssertionError(unused)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(errors.TrainingInterrupted):
            train(tmp_path, process=Signalled())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


def test_a_signal_waits_until_results_are_written(tmp_path, uninterrupted):
    class SignalledRelease(Recorder):
        async def release(self, row, round_num):
            if round_num == 3:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(errors.TrainingInterrupted, match="rounds 1 to 3 are saved"):
        train(tmp_path, SignalledRelease())
    assert len(rows(tmp_path)) == 3
    assert outcome(tmp_path, train(tmp_path)) == uninterrupted


def test_an_ignored_signal_stays_ignored(tmp_path):
    class Signalled(fakes.NumpyProcess):
        def next(self, state, datasets):
            signal.raise_signal(signal.SIGINT)
            return super().next(state, datasets)

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert train(tmp_path, process=Signalled()).rounds == ROUNDS
    finally:
        signal.signal(signal.SIGINT, before)


def test_full_disk_loses_nothing(tmp_path, uninterrupted):
    class Full(checkpoints.CheckpointManager):
        async def save(self, program_state, version):
            if version == 6:
                raise errors.ProgramError("Cannot write: No space left on device.")
            await super().save(program_state, version)

    with pytest.raises(errors.ProgramError, match="No space left"):
        train(tmp_path, checkpoint_manager=Full(tmp_path / "checkpoints"))
    result = train(tmp_path)
    assert result.resumed_round == 4
    assert outcome(tmp_path, result) == uninterrupted


def without_round_3(lines):
    return lines[:2] + lines[3:]


def without_the_last_line_feed(lines):
    return [*lines[:-1], lines[-1][:-1]]


def with_a_line_of_another_kind(lines):
    return [*lines[:4], b"[]\n", *lines[5:]]


@pytest.mark.parametrize(
    "damage",
    [without_round_3, without_the_last_line_feed, with_a_line_of_another_kind, lambda lines: []],
    ids=["a hole", "last line cut", "no row", "removed"],
)
@pytest.mark.parametrize("stopped_at", [ROUNDS - 2, ROUNDS])
def test_lost_metrics_are_computed_again(tmp_path, uninterrupted, damage, stopped_at):
    train(tmp_path, total_rounds=stopped_at)
    path = tmp_path / "metrics.jsonl"
    lines = damage(path.read_bytes().splitlines(keepends=True))
    if lines:
        path.write_bytes(b"".join(lines))
    else:
        path.unlink()
    with pytest.warns(UserWarning, match="are missing or damaged"):
        result = train(tmp_path)
    assert result.resumed_round < stopped_at
    assert outcome(tmp_path, result) == uninterrupted


def test_errors_of_the_cohort_source_come_out(tmp_path):
    def source(round_num):
        if round_num == 3:
            raise RuntimeError("store is gone")
        return fakes.numpy_cohort(round_num)

    with pytest.raises(RuntimeError, match="store is gone"):
        train(tmp_path, cohort_source=source)
    assert len(rows(tmp_path)) == 2


def test_two_metrics_of_one_name(tmp_path):
    def source(round_num):
        facts = {"client_work/train/loss": 1.0}
        return RoundInput(fakes.numpy_cohort(round_num).datasets, facts)

    with pytest.raises(errors.ProgramError, match="'client_work/train/loss'"):
        train(tmp_path, cohort_source=source)


def test_timings_add_up(tmp_path):
    train(tmp_path, pop_aggregation_seconds=lambda: 0.0)
    lines = (tmp_path / "timings.csv").read_text().splitlines()
    assert lines[0] == "round," + ",".join(round_clock.TIMING_COLUMNS)
    for line in lines[1:]:
        row = dict(zip(lines[0].split(","), line.split(","), strict=True))
        parts = ["data_wait", "compute", "aggregation", "evaluation", "saving"]
        total = sum(float(row[f"{part}_seconds"] or 0) for part in parts)
        assert total <= float(row["round_seconds"]) + 1e-4


@pytest.mark.parametrize(
    ("of_start", "stopped_at", "best"), [(99.0, 4, 0), (99.0, None, 0), (1.0, None, 4)]
)
def test_the_start_is_kept_if_no_round_is_better(tmp_path, of_start, stopped_at, best):
    """Also by a run that is resumed, which evaluates it again only if it is saved."""
    values = {0: of_start, 2: 3.0, 4: 5.0, 6: 4.0, 7: 4.5}
    starts = []

    class Valued(Recorder):
        def evaluate(self, round_num, weights):
            self.note("evaluate", round_num)
            return {"value": values[round_num]}

    options = dict(
        best_metric=best_round.BestMetric("evaluation/value"),
        evaluate_start=True,
        show_start=starts.append,
    )
    if stopped_at:
        recorder = Valued(crash_at=("progress", stopped_at))
        with pytest.raises(Crash):
            train(tmp_path, recorder, **options, evaluate=recorder.evaluate)
    recorder = Valued()
    result = train(tmp_path, recorder, **options, evaluate=recorder.evaluate)
    assert starts == [{"evaluation/value": of_start}]
    assert (("evaluate", 0) in recorder.calls) == (stopped_at is None or best == 0)
    assert result.loop_state.keeps_start == (best == 0)
    assert result.loop_state.best_round == best
    process = fakes.NumpyProcess()
    state = process.initialize()
    for round_num in range(1, best + 1):
        state, _ = process.next(state, fakes.numpy_cohort(round_num).datasets)
    np.testing.assert_array_equal(result.best_model_weights, state.weights)
    assert [row["round"] for row in rows(tmp_path)] == [*range(1, ROUNDS + 1)]


def test_a_start_that_is_another_model_by_now_is_not_saved(tmp_path):
    def values(of_start):
        return lambda round_num, weights: {"value": of_start if round_num == 0 else 1.0}

    options = dict(best_metric=best_round.BestMetric("evaluation/value"), evaluate_start=True)
    recorder = Recorder(crash_at=("progress", 4))
    with pytest.raises(Crash):
        train(tmp_path, recorder, **options, evaluate=values(2.0))
    with pytest.raises(errors.ProgramError, match=r"is 2\.5 now, and was 2 when the training"):
        train(tmp_path, **options, evaluate=values(2.5))
    assert train(tmp_path, **options, evaluate=values(2.0)).loop_state.keeps_start


def test_a_start_that_is_nan_is_never_kept(tmp_path):
    result = train(
        tmp_path,
        evaluate_start=True,
        evaluate=lambda round_num, weights: {"size": 1.0 if round_num else math.nan},
    )
    assert not result.loop_state.keeps_start
    assert result.loop_state.best_round == 2


@pytest.mark.parametrize(
    "options, name",
    [
        ({"total_rounds": 0}, "total_rounds"),
        ({"checkpoint_every": 0}, "checkpoint_every"),
        ({"evaluate_every": -1}, "evaluate_every"),
        ({"max_rejected_in_a_row": 0}, "max_rejected_in_a_row"),
        ({"evaluate": None}, "evaluate_every"),
        ({"evaluate_every": 0}, "best_metric"),
        ({"evaluate_every": 0, "best_metric": None, "evaluate_start": True}, "evaluate_start"),
    ],
)
def test_rejects(tmp_path, options, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        train(tmp_path, **options)


# The real thing: a TFF process, in a process that is killed.


@dataclasses.dataclass(frozen=True)
class Trainings:
    """One left alone, one killed and started again, one asked to end; what they printed.

    Attributes:
      alone, killed: Run directories.
      printed: Standard output of the one left alone, and of the others.
      errors: Standard error of all.
      report: The rounds done at each kill, and the exit code of the one that was asked to end.
      seed: Seed of the moments.
    """

    alone: pathlib.Path
    killed: pathlib.Path
    printed: tuple[str, str]
    errors: str
    report: dict
    seed: int


@pytest.fixture(scope="module")
def trainings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trainings")
    seed = time.time_ns() % 2**32  # other moments each time; the seed is in the message
    options = ["--kills", "3", "--seed", str(seed), "--seconds-per-round", "0.1"]
    command = [sys.executable, "-m", "tests.support.fakes", str(folder / "run"), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    alone, _, others = done.stdout.partition("killed from here on\n")
    report = json.loads(others.splitlines()[-1])
    return Trainings(folder / "alone", folder / "run", (alone, others), done.stderr, report, seed)


def tiny_outcome(directory):
    names = ["digest.txt", "metrics.jsonl", "metrics.csv"]
    return [(directory / name).read_bytes() for name in names]


@pytest.mark.slow
def test_a_normal_run_makes_no_noise(trainings):
    assert re.fullmatch(r"(round \d\n){8}", trainings.printed[0])


@pytest.mark.slow
def test_kill_at_random_moments(trainings):
    message = f"seed {trainings.seed}: {trainings.printed[1]}"
    assert tiny_outcome(trainings.killed) == tiny_outcome(trainings.alone), message
    assert len(trainings.report["rounds_at_kill"]) == 3


@pytest.mark.slow
def test_sigterm_exits_with_143_and_prints_one_line(trainings):
    assert trainings.report["asked"] == 143
    steps = r"(?: *\d+\.\d s  .*\n)*"
    assert re.fullmatch(
        steps + r"SIGTERM after round \d+: .* are saved\. Run the same .*\n", trainings.errors
    )
