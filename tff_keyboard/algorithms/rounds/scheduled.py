"""Sets the learning rates of each round in the state of a process.

TFF keeps an optimizer's learning rate in the state of the process: the clients' rate in the state
of the client work, which is broadcast, and the server's in the finalizer's. `ScheduledProcess` sets
the rates there before each round, so nothing is compiled again. The rates of a schedule are in
`algorithms/schedules.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tree

from tff_keyboard.algorithms.rounds.round_process import CountedState, RoundOutput, RoundProcess

LEARNING_RATE = "learning_rate"

# Round >= 1 -> field of the state -> learning rate
RatesOfRound = Callable[[int], Mapping[str, float]]


class ScheduledProcess:
    """A `RoundProcess` that sets learning rates before each round of an inner process.

    The inner state is a named tuple with the parts of `rates`. Each part has one `learning_rate` at
    the lowest depth. With MimeLite, an aggregator in the client work has further rates, which are
    deeper and stay as they are.
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
    """Returns `part` with its one `learning_rate` of the lowest depth replaced."""
    paths = [path for path, _ in tree.flatten_with_path(part) if path[-1:] == (LEARNING_RATE,)]
    paths = [path for path in paths if len(path) == min(map(len, paths))]
    if len(paths) != 1:
        raise ValueError(f"The state has {len(paths)} learning rates where a schedule needs 1.")
    return tree.map_structure_with_path(
        lambda path, value: np.float32(rate) if path == paths[0] else value, part
    )
