"""The processes that compute rounds of training, and how they are wrapped.

A `tff.learning.templates.LearningProcess` is a `RoundProcess`. So are training on a server
(`CentralTraining`), transfer learning on the server and a process whose clients come in packs.
These cannot be built as TFF's processes, which require computations and datasets.

A process is extended by *transforms*, each of which does one thing before or after a round:

    packed.py      computes the clients of a round in packs, in this process or on an engine
    noised.py      puts the round's privacy noise into the state, and removes it
    scheduled.py   sets the learning rates of the round
    averaged.py    keeps an average of the models of many rounds

`fine_tuning/server_transfer.py` is a transform, too: it lets the server learn from each client's
model.

`chain` applies a list of them, the innermost first, like `optax.chain`. The function
`round_transforms` of `training/process_transforms.py` returns the list of a run.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np


class RoundOutput(NamedTuple):
    """Result of a round, like TFF's `LearningProcessOutput`."""

    state: Any  # state after the round: a structure of arrays, as checkpoints hold it
    metrics: Any  # numbers and strings, which may be nested


class CountedState(NamedTuple):
    """State of a wrapped process, and the number of its finished rounds."""

    process: Any
    rounds: np.int64


class RoundInput(NamedTuple):
    """The data of a round, and facts about it."""

    datasets: Sequence[Any]  # one element per client, or one per pack: the argument of `next`
    facts: Mapping[str, float | int | str] = MappingProxyType({})  # for the row of metrics


class RoundProcess(Protocol):
    """Rounds of training as a pure function of state and data: equal bits on one machine."""

    def initialize(self) -> Any:
        """Returns the state before the first round."""

    def next(self, state: Any, datasets: Sequence[Any], /) -> RoundOutput:
        """Computes one round of a cohort: one element per client, or one per pack of clients."""

    def get_model_weights(self, state: Any, /) -> Any:
        """Returns the model of a state, a `tff.learning.models.ModelWeights`."""


# Returns a process that does something before or after the rounds of another process.
RoundTransform: TypeAlias = Callable[[RoundProcess], RoundProcess]


def chain(process: RoundProcess, transforms: Iterable[RoundTransform]) -> RoundProcess:
    """Wraps a process in transforms. The first one is the innermost: it sees the inner state.

    >>> doubled = lambda process: process * 2
    >>> chain(3, [doubled, lambda process: process + 1])
    7
    """
    for transform in transforms:
        process = transform(process)
    return process
