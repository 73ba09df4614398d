"""What the round loop trains: a TFF learning process, or anything that is used as one.

A `tff.learning.templates.LearningProcess` is a `RoundProcess`. So are training on a server
(`CentralTraining`), the server's transfer learning and a process whose clients come in packs, which
could not be built as TFF's: that insists on computations and datasets.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np


class RoundOutput(NamedTuple):
    """What a round gives, as TFF's `LearningProcessOutput` does."""

    state: Any  # state after the round: a structure of arrays, as checkpoints hold it
    metrics: Any  # numbers and strings, which may be nested


class CountedState(NamedTuple):
    """State of a process around another: the state of that one, and how many rounds it has done."""

    process: Any
    rounds: np.int64


class RoundProcess(Protocol):
    """Rounds of training as a function of state and data, on a given machine to the bit."""

    def initialize(self) -> Any:
        """The state before the first round."""

    def next(self, state: Any, datasets: Sequence[Any], /) -> RoundOutput:
        """One round on what the cohort source gave: an element a client, or a pack of clients."""

    def get_model_weights(self, state: Any, /) -> Any:
        """The model in a state, a `tff.learning.models.ModelWeights`."""
