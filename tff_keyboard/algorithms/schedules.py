"""Learning rates that change from round to round: their factors, and a process that sets them.

    warm-up   t / warmup    for t < warmup
    constant  1
    cosine    lowest + (1 - lowest) (1 + cos(pi p)) / 2,
              p = (t - warmup) / (rounds - warmup), at most 1

A factor depends only on the number of the round, so a stopped and resumed run trains with the same
rates. Cosine: Loshchilov & Hutter 2017, eq. 5 without restarts, https://arxiv.org/abs/1608.03983.

TFF keeps an optimizer's learning rate in the state of the process: the clients' rate in the state
of the client work, which is broadcast, and the server's in the finalizer's. `ScheduledProcess` sets
the rates there before each round, so nothing is compiled again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tree

from tff_keyboard.algorithms.round_process import CountedState, RoundOutput, RoundProcess
from tff_keyboard.config.sections import schedule_config as tables

LEARNING_RATE = "learning_rate"

# Round >= 1 -> field of the state -> learning rate
RatesOfRound = Callable[[int], Mapping[str, float]]


def factor(schedule: tables.Schedule, round_num: int) -> float:
    """Returns the factor of the learning rate in round `round_num` >= 1.

    >>> cosine = tables.Cosine(rounds=9, warmup_rounds=4, lowest=0.1)
    >>> [round(factor(cosine, t), 3) for t in (1, 4, 5, 9, 100)]
    [0.25, 1.0, 0.914, 0.1, 0.1]

    Raises:
      ValueError: `round_num` is less than 1, or a cosine has no number of rounds
        (`config_file.with_rounds`).
    """
    if round_num < 1:
        raise ValueError(f"`round_num` must be >= 1, got {round_num}.")
    if round_num < schedule.warmup_rounds:
        return round_num / schedule.warmup_rounds
    match schedule:
        case tables.Constant():
            return 1.0
        case tables.Cosine(rounds=0):
            raise ValueError(
                "`schedule.rounds` must be > 0, got 0: it is the number of rounds of the cosine."
            )
        case tables.Cosine():
            span = schedule.rounds - schedule.warmup_rounds
            progress = min(1.0, (round_num - schedule.warmup_rounds) / span)
            return schedule.lowest + (1 - schedule.lowest) * (1 + math.cos(math.pi * progress)) / 2


def is_constant(schedule: tables.Schedule) -> bool:
    """Checks whether the factor is 1 in all rounds."""
    return isinstance(schedule, tables.Constant) and schedule.warmup_rounds <= 1


class ScheduledProcess:
    """A `RoundProcess` that sets learning rates before each round of an inner process.

    The inner state is a named tuple with the parts of `rates`, each with one `learning_rate`.
    """

    def __init__(self, process: RoundProcess, rates: RatesOfRound):
        self._process = process
        self._rates = rates

    def initialize(self) -> CountedState:
        """Returns the initial state, after 0 rounds."""
        return CountedState(self._process.initialize(), np.int64(0))

    def next(self, state: CountedState, datasets: Sequence[Any]) -> RoundOutput:
        """Computes one round with its rates."""
        round_num = int(state.rounds) + 1
        rates = self._rates(round_num)
        changed = {part: _with_rate(getattr(state.process, part), rates[part]) for part in rates}
        output = self._process.next(state.process._replace(**changed), datasets)
        metrics = {**output.metrics, LEARNING_RATE: dict(rates)}
        return RoundOutput(CountedState(output.state, np.int64(round_num)), metrics)

    def get_model_weights(self, state: CountedState) -> Any:
        """Returns the model weights of the inner process."""
        return self._process.get_model_weights(state.process)


def _with_rate(part: Any, rate: float) -> Any:
    """Returns `part` with its one `learning_rate` replaced."""
    found = [path for path, _ in tree.flatten_with_path(part) if path[-1:] == (LEARNING_RATE,)]
    if len(found) != 1:
        raise ValueError(f"The state has {len(found)} learning rates where a schedule needs 1.")
    return tree.map_structure_with_path(
        lambda path, value: np.float32(rate) if path == found[0] else value, part
    )
