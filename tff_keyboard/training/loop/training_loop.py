"""The loop of rounds: compute, measure, save. A killed training resumes and ends with equal bits.

Contract. The process must be deterministic for given state and data, and `cohort_source` and
`evaluate` must be pure functions of their arguments. Then the sequence of states, metric rows and
checkpoints depends only on the arguments of `TrainingLoop`, for any number of kills and restarts.

With `evaluate_start`, the model before the first round is evaluated as round 0. It has no row, but
counts as the best model until a round is better.

A round is written in this order:

 1. hooks, `before_release`: they may record what the round reveals;
 2. evaluation, if it is due;
 3. its row, to all release managers, forced to disk;
 4. every `checkpoint_every` rounds, at a new best round and at the end: the checkpoint.

After a kill the loop continues from the newest sound checkpoint, round r, and every part that keeps
rows first drops the rows after r. Rounds r + 1, ... are then computed again. So a row is on disk
once, and a checkpoint is never ahead of the rows. If it is ahead, rows were lost or damaged. The
loop then takes the newest checkpoint that is not ahead of the sound rows, or none.
"""

import asyncio
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import tensorflow_federated as tff

from tff_keyboard.algorithms.rounds.round_process import RoundProcess
from tff_keyboard.host import interruption
from tff_keyboard.storage.metrics_rows import ROUND, Row, Value
from tff_keyboard.training.loop import best_round, checkpoints, errors, read_ahead, release
from tff_keyboard.training.loop.round_clock import RoundClock

_REFUSED = "aggregator/refused_non_finite"  # number of clients, by the guard of a config's run
# A validation of the same weights differs by less between processors, relative to its value.
_SAME_VALUE = 1e-3
_LOWER_RATES = "Lower the learning rates or clip the updates, then start a new run."

RESERVED = (f"{best_round.EVALUATION_PREFIX}/", "privacy/")
"""Beginnings of metrics that no process may return: validation and the ledger add them."""


@runtime_checkable
class Restartable(Protocol):
    """Keeps records of each round, and can go back to a round."""

    def restart_after(self, round_num: int) -> None:
        """Drops the records of rounds after `round_num`."""
        ...


class Hook(Restartable, Protocol):
    """Gets each round before its release. The privacy ledger is a hook."""

    def before_release(
        self, round_num: int, state: Any, metrics: Mapping[str, Value]
    ) -> Mapping[str, Value] | None:
        """Returns metrics to add to the row of the round, or None."""
        ...


@dataclasses.dataclass(frozen=True)
class RoundProgress:
    """Argument of the `progress` callback after each round."""

    round_num: int
    total_rounds: int
    resumed_round: int
    row: Mapping[str, Value]
    # seconds of the round, by `round_clock.TIMING_COLUMNS`; None: not measured
    seconds: Mapping[str, float | None]
    is_best: bool


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """Result of a finished training."""

    state: Any
    model_weights: Any
    # weights of the best round, or from before the first one if none was better (`evaluate_start`);
    # the same object if no metric was compared
    best_model_weights: Any
    loop_state: best_round.LoopState
    rounds: int
    resumed_round: int
    stop_reason: str  # reason for an end before `total_rounds`, or ""


class _ProgramState(NamedTuple):
    """Content of a checkpoint."""

    process: Any
    loop: best_round.LoopState


@dataclasses.dataclass
class _Training:
    """Progress of a training, which the loop changes round by round.

    Attributes:
      state: State of the process.
      loop: State of the loop.
      round_num: Number of the last round; 0 before the first.
      saved_round: Round of the newest checkpoint.
      resumed_round: Round from which this start of the training continued; 0 for a new one.
    """

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
    # gets `round_clock.TIMING_COLUMNS` of each round, None for unknown values
    timings_manager: tff.program.ReleaseManager | None = None
    # round number and model weights to metrics, released as `evaluation/<name>`
    evaluate: Callable[[int, Any], Mapping[str, Any]] | None = None
    evaluate_every: int = 0  # rounds between evaluations, the last round always has one; 0: never
    # also evaluates the model before the first round, with which the rounds are compared
    evaluate_start: bool = False
    # compared in evaluated rounds if it is a metric of the evaluation, else in all
    best_metric: best_round.BestMetric | None = None
    checkpoint_every: int = 1  # rounds between checkpoints, >= 1; a kill repeats at most so many
    # this many rejected rounds in a row end the training with an error
    max_rejected_in_a_row: int = 10
    hooks: Sequence[Hook] = ()
    progress: Callable[[RoundProgress], None] | None = None
    show_start: Callable[[Row], None] | None = None  # gets the evaluation of `evaluate_start`
    pop_aggregation_seconds: Callable[[], float | None] = lambda: None
    # key of the config -> reference of the user's own parts that a round runs, for errors
    own_parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_private: bool = False  # errors then say nothing about the clients of a round

    def __post_init__(self) -> None:
        for name in ("total_rounds", "checkpoint_every", "evaluate_every", "max_rejected_in_a_row"):
            minimum = 0 if name == "evaluate_every" else 1
            if getattr(self, name) < minimum:
                raise ValueError(f"`{name}` must be >= {minimum}, got {getattr(self, name)}.")
        if self.evaluate_every and self.evaluate is None:
            raise ValueError(f"`evaluate_every` = {self.evaluate_every} needs `evaluate`.")
        if self.evaluate_start and self.evaluate_every == 0:
            raise ValueError("`evaluate_start` needs `evaluate_every` >= 1, got 0.")
        if self.best_metric and self.best_metric.is_of_evaluation and not self.evaluate_every:
            raise ValueError(
                f"`best_metric` = {self.best_metric.name!r} needs `evaluate_every` >= 1, got 0."
            )

    def train(self) -> TrainingResult:
        """Runs `run` to its end, in its own event loop."""
        return asyncio.run(self.run())

    async def run(self) -> TrainingResult:
        """Trains.

        SIGINT and SIGTERM end the current round unfinished; earlier rounds are saved.

        Raises:
          ProgramError: Errors of the disk, a checkpoint or a metric, or too many rejected
            rounds.
        """
        training = _Training()
        with interruption.Interruption() as signals:
            try:
                return await self._run(training, signals)
            except interruption.Interrupted as interrupted:
                interrupted.drop_calls()
                if training.saved_round < training.round_num:  # further signals wait
                    await self._save(training)
                raise errors.TrainingInterrupted(
                    interrupted.signal_number, training.round_num, training.saved_round
                ) from None

    async def _run(self, training: _Training, signals: interruption.Interruption) -> TrainingResult:
        """Trains as `run`. `training` records the progress when a signal ends it."""
        with signals.at_once():
            template = _ProgramState(self.process.initialize(), best_round.LoopState())
        await self._restore(training, template)
        self._check_rejected(training, {})
        if self.evaluate_start and training.round_num == 0:
            with signals.at_once():
                self._evaluate_start(training)
        with read_ahead.ReadAhead(self.cohort_source, self.total_rounds) as inputs:
            while not self._is_over(training):
                row = await self._train_a_round(training, inputs, signals)
                self._check_rejected(training, row)
                self._check_weights(training)
        with signals.at_once():
            return await self._result(training, template)

    async def _restore(self, training: _Training, template: _ProgramState) -> None:
        """Loads the newest state and its round, and drops the records of later rounds."""
        ours = [m for m in self.release_managers if isinstance(m, release.RoundReleaseManager)]
        on_disk = [manager.rounds_on_disk() for manager in ours]  # None: it keeps no count
        complete = min((rounds for rounds in on_disk if rounds is not None), default=None)
        checkpoint, round_num = await self.checkpoint_manager.load_latest(template, up_to=complete)
        program_state = template if checkpoint is None else checkpoint
        loop = best_round.LoopState.from_arrays(program_state.loop)
        if round_num > self.total_rounds:
            raise errors.ProgramError(
                f"`total_rounds` = {self.total_rounds}, but {round_num} rounds are done. Pass at "
                "least this many, or use another run directory."
            )
        self.checkpoint_manager.pin(loop.best_round)
        # The last hook first, so that a hook with released rounds fails before the ledger drops
        # them.
        for part in (*self.hooks[::-1], *self.release_managers, self.timings_manager):
            if isinstance(part, Restartable):  # TFF's own release managers are not
                part.restart_after(round_num)
        training.state, training.loop = program_state.process, loop
        training.round_num = training.saved_round = training.resumed_round = round_num

    def _evaluate_start(self, training: _Training) -> None:
        """Evaluates the model before the first round, which then counts as the best one."""
        row = self._evaluation(0, training.state)
        best = self.best_metric
        if best is not None and best.is_of_evaluation:
            value = best_round.metric_value(best, row)
            training.loop = training.loop.after_comparison(best, value, 0)
        if self.show_start is not None:
            self.show_start(row)

    def _check_start(self, training: _Training, start: Any) -> None:
        """Raises `ProgramError` if the start, built again by a resumed run, is another model."""
        best = self.best_metric
        assert best is not None
        value = best_round.metric_value(best, self._evaluation(0, start))
        if not math.isclose(value, training.loop.best_value, rel_tol=_SAME_VALUE):
            raise errors.ProgramError(
                "No round was better than the model before the first round, which would be saved. "
                f"But its {best.name} is {value:.6g} now, and was {training.loop.best_value:.6g} "
                "when the training began, so the initial model is another one by now. Put the "
                "first one back, and run the same command again."
            )

    def _evaluation(self, round_num: int, state: Any) -> dict[str, Value]:
        """Returns the metrics of a state's model, as in a row."""
        assert self.evaluate is not None
        metrics = self.evaluate(round_num, self.process.get_model_weights(state))
        return release.flatten_metrics(metrics, best_round.EVALUATION_PREFIX)

    async def _train_a_round(
        self, training: _Training, inputs: read_ahead.ReadAhead, signals: interruption.Interruption
    ) -> Row:
        """Computes a round and writes its row. A signal interrupts computing, but not writing."""
        round_num, clock = training.round_num + 1, RoundClock()
        with signals.at_once():
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
            self.progress(RoundProgress(round_num, self.total_rounds, begun, row, seconds, is_best))
        return row

    def _compute(
        self, round_num: int, state: Any, inputs: read_ahead.ReadAhead, clock: RoundClock
    ) -> tuple[Any, Row]:
        """Returns the state after a round and its row, before the row is written."""
        round_input, data_seconds = inputs.take(round_num)
        clock.lap("data_wait_seconds")
        clock.set("data_seconds", data_seconds)
        self.pop_aggregation_seconds()  # drops the seconds of the previous evaluation
        output = self.process.next(state, round_input.datasets)
        clock.lap("compute_seconds")
        clock.move("compute_seconds", "aggregation_seconds", self.pop_aggregation_seconds())
        row = dict(round_input.facts)
        _add(row, _of_process(release.flatten_metrics(output.metrics)))
        # A count of the clients' words decides about no private round: it would be released.
        is_lost = not self.is_private and best_round.has_trained_nothing(row)
        _add(row, {"rejected": int(is_lost or best_round.is_rejected(row))})
        for hook in self.hooks:
            _add(row, hook.before_release(round_num, output.state, dict(row)) or {})
        if self._is_evaluated(round_num):
            clock.restart()
            _add(row, self._evaluation(round_num, output.state))
            clock.lap("evaluation_seconds")
        return output.state, row

    def _is_evaluated(self, round_num: int) -> bool:
        if self.evaluate_every == 0:
            return False
        return round_num % self.evaluate_every == 0 or round_num == self.total_rounds

    def _after_round(
        self, loop: best_round.LoopState, row: Row, round_num: int
    ) -> best_round.LoopState:
        """Returns the loop's state after a round, which may be the best one."""
        loop = loop.after_round(rejected=bool(row["rejected"]))
        best = self.best_metric
        if best is None or (best.is_of_evaluation and not self._is_evaluated(round_num)):
            return loop
        return loop.after_comparison(best, best_round.metric_value(best, row), round_num)

    def _stop_reason(self, loop: best_round.LoopState) -> str:
        """Returns the reason for early stopping; "" while training goes on."""
        best = self.best_metric
        if best is None or not loop.has_waited_in_vain(best):
            return ""
        return (
            f"{best.name} did not improve on {loop.best_value:g} "
            f"({f'round {loop.best_round}' if loop.best_round else 'before the first round'}) in "
            f"{best.patience} evaluations"
        )

    def _is_over(self, training: _Training) -> bool:
        return training.round_num >= self.total_rounds or bool(self._stop_reason(training.loop))

    def _check_rejected(self, training: _Training, row: Mapping[str, Value]) -> None:
        """Raises `ProgramError` after too many rejected rounds in a row.

        A run that ends earlier, and had no other round, has the model from before the training.

        Args:
          training: The progress.
          row: The metrics of the last round; empty if it was not computed here.
        """
        in_a_row, last = training.loop.rejected_in_a_row, training.round_num
        has_learnt_nothing = self._is_over(training) and 0 < last == training.loop.rejected_rounds
        if in_a_row >= self.max_rejected_in_a_row or has_learnt_nothing:
            raise errors.ProgramError(
                f"The updates of {in_a_row} rounds in a row, up to round {last}, were rejected: "
                f"{self._cause_of_rejection(row)}"
            )

    def _cause_of_rejection(self, row: Mapping[str, Value]) -> str:
        """Returns the cause by the metrics of a round, and what to do."""
        clients, refused = row.get("clients"), row.get(_REFUSED)
        if self.is_private or clients is None or (clients and refused is None):
            return (
                "NaN or infinite at all clients or in their aggregate, or no client with data. "
                f"{self._likely_cause() or _LOWER_RATES}"
            )
        if not clients:
            return "no client had data. Lower `train.dropout_rate`, then start a new run."
        if refused == clients or best_round.has_trained_nothing(row):
            cause = self._likely_cause("client.type", "model.type")
            return f"the update of each client was NaN or infinite. {cause or _LOWER_RATES}"
        cause = self._likely_cause("aggregation.rule.type", "client.type")
        return (
            f"the updates of {int(clients) - int(refused or 0)} of {int(clients)} clients were "
            f"finite, but their aggregate was not. {cause or _LOWER_RATES}"
        )

    def _check_weights(self, training: _Training) -> None:
        """Raises `ProgramError` if no later round can lead to a usable model.

        Weights that are NaN stay NaN. If no validated round was usable before, nothing is lost.
        """
        if self.evaluate_every == 0 or not self._is_evaluated(training.round_num):
            return
        weights = self.process.get_model_weights(training.state)
        if training.loop.best_round or _are_finite(weights):
            return
        raise errors.ProgramError(
            f"The weights of the model are NaN or infinite after round {training.round_num}, and "
            "no validated round before was better. More rounds cannot change that. "
            f"{self._likely_cause() or _LOWER_RATES}"
        )

    def _likely_cause(self, *keys: str) -> str:
        """Names the user's own parts, of some keys if the config has them; "" without own parts."""
        parts = {key: self.own_parts[key] for key in keys if key in self.own_parts}
        if keys and not parts:
            return ""
        names = " or ".join(
            f"`{key}` = {value!r}" if value else key
            for key, value in (parts or self.own_parts).items()
        )
        return f"The likely cause is {names}. Correct it, then start a new run." if names else ""

    async def _save(self, training: _Training) -> None:
        self.checkpoint_manager.pin(training.loop.best_round)
        program_state = _ProgramState(training.state, training.loop)
        await self.checkpoint_manager.save(program_state, training.round_num)
        training.saved_round = training.round_num

    async def _result(self, training: _Training, template: _ProgramState) -> TrainingResult:
        """Returns the last and the best weights. The best are read from their checkpoint."""
        weights = best_weights = self.process.get_model_weights(training.state)
        best = training.loop.best_round
        if training.loop.keeps_start:
            if training.resumed_round:
                self._check_start(training, template.process)
            best_weights = self.process.get_model_weights(template.process)
        elif best not in (0, training.round_num):
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


def _are_finite(weights: Any) -> bool:
    """Whether all numbers of model weights are finite; True if they have another form."""
    weights = getattr(weights, "average", weights)  # of the iterates
    values = [*getattr(weights, "trainable", ()), *getattr(weights, "non_trainable", ())]
    return all(bool(np.isfinite(value).all()) for value in values)


def _of_process(metrics: dict[str, Value]) -> dict[str, Value]:
    """Returns the metrics of a process. Raises `ProgramError` if a name is reserved."""
    for name in metrics:
        if name.startswith(RESERVED):
            raise errors.ProgramError(
                f"The process returns a metric {name!r}, but this beginning is reserved for "
                "validation and for privacy. Rename it."
            )
    return metrics


def _add(row: dict[str, Value], metrics: Mapping[str, Value]) -> None:
    """Adds metrics to the row. Raises `ProgramError` if two have one name."""
    for name in metrics:
        if name in row or name == ROUND:
            raise errors.ProgramError(f"Two metrics of a round are named {name!r}. Rename one.")
    row.update(metrics)
