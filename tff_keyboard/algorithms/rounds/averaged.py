"""Averages the models of many rounds. The average is often better than the last model.

With w_1, w_2, ... the models after rounds first_round, first_round + 1, ...

    a_n = sum_i decay^(n - i) w_i / sum_i decay^(n - i)
        = a_(n-1) + (w_n - a_(n-1)) s_n    with s_n = (1 - decay) / (1 - decay^n)

Before the first round the average is the model itself. The average needs the memory of one more
model. Training continues from the last model. The average is a function of released models, so it
costs no privacy.

Sources: Polyak & Juditsky 1992; Kingma & Ba 2015, section 7.2, for the average without bias,
https://arxiv.org/abs/1412.6980.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

from tff_keyboard.algorithms.rounds.round_process import RoundOutput, RoundProcess
from tff_keyboard.config.sections.averaging_config import ExponentialAverage


class IterateWeights(NamedTuple):
    """Two models of one state, both `tff.learning.models.ModelWeights`."""

    average: Any
    last: Any


class AveragedState(NamedTuple):
    """State of the inner process, finished rounds, and the average (float32, trainable weights)."""

    process: Any
    rounds: np.int64
    average: list[np.ndarray]


class AveragedProcess:
    """A `RoundProcess` that keeps an average of the models of an inner process.

    `get_model_weights` returns `IterateWeights`. A rejected round adds the unchanged model to the
    average.
    """

    def __init__(self, process: RoundProcess, averaging: ExponentialAverage):
        self._process = process
        self._averaging = averaging

    def initialize(self) -> AveragedState:
        """Returns the initial state. The average is the initial model."""
        state = self._process.initialize()
        return AveragedState(state, np.int64(0), self._last(state))

    def next(self, state: AveragedState, datasets: Sequence[Any]) -> RoundOutput:
        """Computes one round, and the average after it."""
        output = self._process.next(state.process, datasets)
        rounds = int(state.rounds) + 1
        share = np.float32(step_size(self._averaging, rounds))
        pairs = zip(state.average, self._last(output.state), strict=True)
        average = [old + (new - old) * share for old, new in pairs]
        after = AveragedState(output.state, np.int64(rounds), average)
        return RoundOutput(after, output.metrics)

    def get_model_weights(self, state: AveragedState) -> IterateWeights:
        """Returns the average and the last model."""
        average = tff.learning.models.ModelWeights(list(state.average), [])
        return IterateWeights(average, self._process.get_model_weights(state.process))

    def _last(self, state: Any) -> list[np.ndarray]:
        """Returns the weights of the last model, which the average does not replace."""
        weights = held_weights(state) or self._process.get_model_weights(state)
        return [np.asarray(weight, np.float32) for weight in weights.trainable]


def held_weights(state: Any) -> Any:
    """Returns the model in the state of a TFF learning process, with any wrappers, or None.

    The computation `get_model_weights` would copy the whole state.
    """
    while not hasattr(state, "global_model_weights"):
        if not hasattr(state, "process"):
            return None
        state = state.process
    return state.global_model_weights


def step_size(averaging: ExponentialAverage, round_num: int) -> float:
    """Returns s_n of round `round_num` >= 1, the step of the average towards the round's model.

    >>> [round(step_size(ExponentialAverage(decay=0.5, first_round=3), t), 3) for t in range(1, 6)]
    [1.0, 1.0, 1.0, 0.667, 0.571]
    """
    count = round_num - averaging.first_round + 1
    if count <= 1:
        return 1.0
    return (1 - averaging.decay) / (1 - averaging.decay**count)
