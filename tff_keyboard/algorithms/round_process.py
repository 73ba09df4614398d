"""Interface of the processes that the round loop trains.

A `tff.learning.templates.LearningProcess` is a `RoundProcess`. So are training on a server
(`CentralTraining`) and a process whose clients come in packs. These cannot be built as TFF's
processes, which require computations and datasets.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


class RoundOutput(NamedTuple):
    """Result of a round, like TFF's `LearningProcessOutput`."""

    state: Any  # state after the round: a structure of arrays, as checkpoints hold it
    metrics: Any  # numbers and strings, which may be nested


class CountedState(NamedTuple):
    """State of a wrapped process, and the number of its finished rounds."""

    process: Any
    rounds: np.int64


class RoundProcess(Protocol):
    """Rounds of training as a pure function of state and data: equal bits on one machine."""

    def initialize(self) -> Any:
        """Returns the state before the first round."""

    def next(self, state: Any, datasets: Sequence[Any], /) -> RoundOutput:
        """Computes one round of a cohort: one element per client, or one per pack of clients."""

    def get_model_weights(self, state: Any, /) -> Any:
        """Returns the model of a state, a `tff.learning.models.ModelWeights`."""
