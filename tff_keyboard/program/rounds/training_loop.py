"""The loop of rounds: compute, measure, save. After a kill it resumes and ends with the same bits.

Contract. Let the process be deterministic (given state and data) and `cohort_source` and
`evaluate` pure functions of their arguments. Then the sequence of states, metric rows and
checkpoints is a function of the arguments of `run_training` alone, however often the program was
killed and started again.

How a round is written, in this order:

 1. hooks, `before_release`: they may record what the round reveals;
 2. evaluation, if it is due;
 3. its row, to all release managers, forced to disk;
 4. every `checkpoint_every` rounds, at a new best round and at the end: the checkpoint.

After a kill the loop goes on from the newest sound checkpoint, round r, and everything that
keeps rows first drops those after r. Rounds r + 1, ... are then computed again. A row is thus on
disk once, and a checkpoint never is ahead of the rows. Where it is, somebody lost or damaged rows:
the loop then takes the newest checkpoint that is not ahead of the sound ones, or none.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import grpc
import tensorflow_federated as tff

from tff_keyboard.host import interruption
from tff_keyboard.program import errors
from tff_keyboard.program.rounds import best_round, checkpoints, read_ahead, release
from tff_keyboard.program.rounds.round_clock import RoundClock
from tff_keyboard.program.rounds.round_process import RoundProcess
from tff_keyboard.storage.metrics_rows import ROUND, Row, Value


@runtime_checkable
class Restartable(Protocol):
    """Keeps something of each round, and can go back to a round."""

    def restart_after(self, round_num: int) -> None:
        """Forgets what was recorded of rounds after `round_num`."""
        ...


class Hook(Restartable, Protocol):
    """Sees each round before anything of it is released; the privacy ledger is one."""

    def before_release(
        self, round_num: int, state: Any, metrics: Mapping[str, Value]
    ) -> Mapping[str, Value] | None:
        """Metrics to add to the row of the round, or None."""
        ...


@dataclasses.dataclass(frozen=True)
class Progress:
    """Given to the `progress` callback after each round."""

    round_num: int
    total_rounds: int
    resumed_round: int
    row: Mapping[str, Value]
    # seconds of the round, by `round_clock.TIMING_COLUMNS`; None: not measured
    seconds: Mapping[str, float | None]
    is_best: bool


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a finished training gives."""

    state: Any
    model_weights: Any
    # weights of the best round; the same object where no metric was compared
    best_model_weights: Any
    loop_state: best_round.LoopState
    rounds: int
    resumed_round: int
    stop_reason: str  # why it ended before `total_rounds`, or ""


class _ProgramState(NamedTuple):
    """What a checkpoint holds."""

    process: Any
    loop: best_round.LoopState


@dataclasses.dataclass
class _Training:
    """How far a training is."""

    state: Any = None
    loop: best_round.LoopState = dataclasses.field(default_factory=best_round.LoopState)
    round_num: int = 0
    saved_round: int = 0
    resumed_round: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingLoop:
    """Trains up to `total_rounds`, from the newest checkpoint if there is one."""

    process: RoundProcess
    # round number, from 1, to `RoundInput`; pure, called in another thread
    cohort_source: read_ahead.CohortSource
    total_rounds: int  # Rounds in all, >= 1. A finished training goes on when it is raised.
    checkpoint_manager: checkpoints.CheckpointManager
    release_managers: Sequence[tff.program.ReleaseManager] = ()
    # gets `round_clock.TIMING_COLUMNS` of each round, None for what is not known
    timings_manager: tff.program.ReleaseManager | None = None
    # round number and model weights to metrics, released as `evaluation/<name>`
    evaluate: Callable[[int, Any], Mapping[str, Any]] | None = None
    evaluate_every: int = 0  # rounds between evaluations, the last round always has one; 0: never
    # compared in evaluated rounds if it is of the evaluation, else in all
    best_metric: best_round.BestMetric | None = None
    checkpoint_every: int = 1  # rounds between checkpoints, >= 1; a kill repeats at most so many
    # this many rejected rounds in a row end the training with an error
    max_rejected_in_a_row: int = 10
    hooks: Sequence[Hook] = ()
    progress: Callable[[Progress], None] | None = None
    pop_aggregation_seconds: Callable[[], float | None] = lambda: None

    def __post_init__(self) -> None:
        for name in ("total_rounds", "checkpoint_every", "evaluate_every", "max_rejected_in_a_row"):
            least = 0 if name == "evaluate_every" else 1
            if getattr(self, name) < least:
                raise ValueError(f"`{name}` must be >= {least}, got {getattr(self, name)}.")
        if self.evaluate_every and self.evaluate is None:
            raise ValueError(f"`evaluate_every` = {self.evaluate_every} needs `evaluate`.")
        if self.best_metric and self.best_metric.is_of_evaluation and not self.evaluate_every:
            raise ValueError(
                f"`best_metric` = {self.best_metric.name!r} needs `evaluate_every` >= 1, got 0."
            )

    def train(self) -> TrainingResult:
        """`run` to its end, in an event loop of its own."""
        return asyncio.run(self.run())

    async def run(self) -> TrainingResult:
        """Trains.

        SIGINT and SIGTERM end the current round unfinished; those before it are saved. Raises
        `ProgramError`: disk, checkpoint, worker or metric trouble, or too many rejected rounds.
        """
        training = _Training()
        with interruption.Interruption() as signals:
            try:
                return await self._run(training, signals)
            except interruption.Interrupted as interrupted:
                interrupted.drop_calls()
                if training.saved_round < training.round_num:  # more signals wait
                    await self._save(training)
                raise errors.TrainingInterrupted(
                    interrupted.signal_number, training.round_num, training.saved_round
                ) from None

    async def _run(self, training: _Training, signals: interruption.Interruption) -> TrainingResult:
        """As `run`; `training` tells how far it came where a signal ends it."""
        with signals.at_once(), _worker_errors("The first computation"):
            template = _ProgramState(self.process.initialize(), best_round.LoopState())
        await self._restore(training, template)
        self._check_rejected(training)
        with read_ahead.ReadAhead(self.cohort_source, self.total_rounds) as inputs:
            while not self._is_over(training):
                await self._train_a_round(training, inputs, signals)
                self._check_rejected(training)
        with signals.at_once(), _worker_errors("The last computation"):
            return await self._result(training, template)

    async def _restore(self, training: _Training, template: _ProgramState) -> None:
        """Takes the newest state and its round; takes back what was written of later rounds."""
        found, round_num = await self.checkpoint_manager.load_latest(
            template, up_to=self._rounds_on_disk()
        )
        program_state = template if found is None else found
        loop = best_round.LoopState.from_arrays(program_state.loop)
        if round_num > self.total_rounds:
            raise errors.ProgramError(
                f"`total_rounds` = {self.total_rounds}, but {round_num} rounds are done. Give at "
                "least as many, or use another run directory."
            )
        self.checkpoint_manager.pin(loop.best_round)
        # The last hook first: one that has released rounds refuses before the ledger forgets them.
        for part in (*self.hooks[::-1], *self.release_managers, self.timings_manager):
            if isinstance(part, Restartable):  # TFF's own release managers are not
                part.restart_after(round_num)
        training.state, training.loop = program_state.process, loop
        training.round_num = training.saved_round = training.resumed_round = round_num

    async def _train_a_round(
        self, training: _Training, inputs: read_ahead.ReadAhead, signals: interruption.Interruption
    ) -> None:
        """Computes a round and writes it; a signal ends the one, and waits for the other."""
        round_num, clock = training.round_num + 1, RoundClock()
        with signals.at_once(), _worker_errors(f"Round {round_num}"):
            state, row = self._compute(round_num, training.state, inputs, clock)
        training.state, training.round_num = state, round_num
        training.loop = self._after_round(training.loop, row, round_num)
        for manager in self.release_managers:
            await manager.release(row, round_num)
        is_best = training.loop.best_round == round_num
        if is_best or self._is_over(training) or round_num % self.checkpoint_every == 0:
            await self._save(training)
        clock.lap("saving_seconds")
        seconds = clock.seconds()
        if self.timings_manager is not None:
            await self.timings_manager.release(seconds, round_num)
        if self.progress is not None:
            begun = training.resumed_round
            self.progress(Progress(round_num, self.total_rounds, begun, row, seconds, is_best))

    def _rounds_on_disk(self) -> int | None:
        """The rounds whose rows all release managers have; None where none of them says."""
        ours = [m for m in self.release_managers if isinstance(m, release.RoundReleaseManager)]
        found = (manager.rounds_on_disk() for manager in ours)
        return min((rounds for rounds in found if rounds is not None), default=None)

    def _compute(
        self, round_num: int, state: Any, inputs: read_ahead.ReadAhead, clock: RoundClock
    ) -> tuple[Any, Row]:
        """The state after a round and its row, before anything is written."""
        round_input, data_seconds = inputs.take(round_num)
        clock.lap("data_wait_seconds")
        clock.set("data_seconds", data_seconds)
        self.pop_aggregation_seconds()  # forget that of the evaluation before
        output = self.process.next(state, round_input.datasets)
        clock.lap("compute_seconds")
        clock.move("compute_seconds", "aggregation_seconds", self.pop_aggregation_seconds())
        row = dict(round_input.facts)
        _add(row, release.flatten_metrics(output.metrics))
        _add(row, {"rejected": int(best_round.is_rejected(row))})
        for hook in self.hooks:
            _add(row, hook.before_release(round_num, output.state, dict(row)) or {})
        if self._is_evaluated(round_num):
            assert self.evaluate is not None
            clock.restart()
            weights = self.process.get_model_weights(output.state)
            evaluation = self.evaluate(round_num, weights)
            _add(row, release.flatten_metrics(evaluation, best_round.EVALUATION_PREFIX))
            clock.lap("evaluation_seconds")
        return output.state, row

    def _is_evaluated(self, round_num: int) -> bool:
        if self.evaluate_every == 0:
            return False
        return round_num % self.evaluate_every == 0 or round_num == self.total_rounds

    def _after_round(
        self, loop: best_round.LoopState, row: Row, round_num: int
    ) -> best_round.LoopState:
        loop = loop.after_round(rejected=bool(row["rejected"]))
        best = self.best_metric
        if best is None or (best.is_of_evaluation and not self._is_evaluated(round_num)):
            return loop
        return loop.after_comparison(best, best_round.metric_value(best, row), round_num)

    def _stop_reason(self, loop: best_round.LoopState) -> str:
        best = self.best_metric
        if best is None or not loop.has_waited_in_vain(best):
            return ""
        return (
            f"{best.name} did not get better than {loop.best_value:g} (round {loop.best_round}) "
            f"in {best.patience} comparisons"
        )

    def _is_over(self, training: _Training) -> bool:
        return training.round_num >= self.total_rounds or bool(self._stop_reason(training.loop))

    def _check_rejected(self, training: _Training) -> None:
        in_a_row = training.loop.rejected_in_a_row
        if in_a_row >= self.max_rejected_in_a_row:
            raise errors.ProgramError(
                f"The updates of {in_a_row} rounds in a row, up to {training.round_num}, were "
                "rejected: NaN or infinite at all clients, or no client with data. Lower the "
                "learning rates or clip, then begin a new run."
            )

    async def _save(self, training: _Training) -> None:
        self.checkpoint_manager.pin(training.loop.best_round)
        program_state = _ProgramState(training.state, training.loop)
        await self.checkpoint_manager.save(program_state, training.round_num)
        training.saved_round = training.round_num

    async def _result(self, training: _Training, template: _ProgramState) -> TrainingResult:
        weights = best_weights = self.process.get_model_weights(training.state)
        best = training.loop.best_round
        if best not in (0, training.round_num):
            best_state = await self.checkpoint_manager.load(best, template)
            best_weights = self.process.get_model_weights(best_state.process)
        return TrainingResult(
            state=training.state,
            model_weights=weights,
            best_model_weights=best_weights,
            loop_state=training.loop,
            rounds=training.round_num,
            resumed_round=training.resumed_round,
            stop_reason=self._stop_reason(training.loop),
        )


def _add(row: dict[str, Value], more: Mapping[str, Value]) -> None:
    for name in more:
        if name in row or name == ROUND:
            raise errors.ProgramError(f"Two metrics of a round are named {name!r}. Rename one.")
    row.update(more)


@contextlib.contextmanager
def _worker_errors(what: str) -> Iterator[None]:
    """An error that a worker reports, in one line."""
    try:
        yield
    except grpc.RpcError as error:
        details = error.details() if isinstance(error, grpc.Call) else str(error)
        first_line = (details or "no details").splitlines()[0][:300]
        raise errors.ProgramError(
            f"{what} failed on a TFF worker: {first_line} (the worker's log has the rest)"
        ) from error
