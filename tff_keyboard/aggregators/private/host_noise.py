"""Supplies the noise of each round to a private process, and removes it from the process's state.

A private aggregator (`noised_sum.py`) has a slot for a round's noise in its state. This module
wraps a process (an aggregation or a learning process): the slot is filled before a round and
emptied after it, so that states that are stored, checkpointed or compared contain no noise.
"""

import copy
import secrets
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tree

from tff_keyboard.aggregators.private.noised_sum import EMPTY_ROUND, NoisedSumState, NoiseSlot
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism

# From a round (number of rounds before it) to its noise, [size] float64
NoiseOfRound = Callable[[int], np.ndarray]


class NoisedProcess:
    """A process with noise, which has the same interface as the wrapped process.

    `process` has `initialize()` and `next(state, ...)`, and exactly one `NoisedSumState` in its
    state, or a `ValueError` is raised. `build_noise` returns the noise of any round, given the size
    of a round's noise.
    """

    def __init__(self, process: Any, build_noise: Callable[[int], NoiseOfRound]):
        self.process = process
        self._initial = process.initialize()
        self._size = len(_query_state(self._initial).slot.values)
        self._noise = build_noise(self._size)

    def around(self, process: Any) -> "NoisedProcess":
        """Returns the same noise for another form of the same process, with the same states."""
        other = copy.copy(self)
        other.process = process
        return other

    def initialize(self) -> Any:
        """Returns the initial state, with an empty slot."""
        return self._with_slot(self._initial, EMPTY_ROUND, np.zeros(0))

    def next(self, state: Any, *arguments: Any) -> Any:
        """Runs one round. Returns the output of the process, with an empty slot in its state."""
        round_num = int(_query_state(state).round)
        filled = self._with_slot(state, round_num, self._noise(round_num))
        output = self.process.next(filled, *arguments)
        emptied = self._with_slot(output.state, EMPTY_ROUND, np.zeros(0))
        return _replaced(output, state=emptied)

    def get_model_weights(self, state: Any) -> Any:
        """Returns the model weights; see `tff.learning.templates.LearningProcess`."""
        full = self._with_slot(state, EMPTY_ROUND, np.zeros(self._size))
        return self.process.get_model_weights(full)

    def _with_slot(self, state: Any, round_num: int, values: np.ndarray) -> Any:
        slot = NoiseSlot(np.int64(round_num), values)
        return map_query_states(state, lambda query: query._replace(slot=slot))


@runtime_checkable
class PrivateFactory(Protocol):
    """A factory whose aggregate contains noise: `PrivateMean` or `PrivateFedAtt`."""

    def noise_mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> Mechanism:
        """Returns the mechanism whose noise the rounds need; see `with_noise`."""


def with_noise(
    process: Any,
    factory: PrivateFactory,
    *,
    rounds: int,
    min_separation_rounds: int = 1,
    momentum: float = 0.0,
    key: bytes | None = None,
) -> NoisedProcess:
    """Adds the noise of a private process's mechanism, drawn outside of TFF in double precision.

        mean = tk.aggregators.PrivateMean(
            noise_multiplier=1.0, clip_norm=0.3, clients_per_round=100
        )
        process = tff.learning.algorithms.build_unweighted_fed_avg(
            model_fn, tff.learning.optimizers.build_sgdm(0.5), model_aggregator=mean
        )
        process = tk.algorithms.with_noise(process, mean, rounds=50)

    Args:
      process: Learning or aggregation process of `factory`.
      factory: `PrivateMean` or `PrivateFedAtt`.
      rounds: Rounds of the run, for which correlated noise is optimised.
      min_separation_rounds: Rounds from one participation of a client to the next, >= 1.
      momentum: Momentum of the server's optimizer, for correlated noise.
      key: Secret of 32 bytes. A resumed run uses the same key. No other run may use it, because the
        difference of their sums would have no noise. None uses a fresh key, which is not stored.

    Returns:
      An object with `initialize`, `next` and `get_model_weights` of the process.

    Raises:
      ValueError: If the process is not private, the key has another length, or the schedule is out
        of range.
    """
    if not isinstance(factory, PrivateFactory):
        raise TypeError(
            "`factory` must be `tff_keyboard.aggregators.PrivateMean` or `PrivateFedAtt`, got "
            f"{type(factory).__name__}."
        )
    key = secrets.token_bytes(32) if key is None else key
    if len(key) != 32:
        raise ValueError(f"`key` must be 32 bytes, got {len(key)}. Use `secrets.token_bytes(32)`.")
    mechanism = factory.noise_mechanism(
        rounds=rounds, min_separation_rounds=min_separation_rounds, momentum=momentum
    )
    return NoisedProcess(process, mechanism.keyed_noise(key))


def map_query_states(state: Any, change: Callable[[NoisedSumState], NoisedSumState]) -> Any:
    """Returns `state` with `change` applied to every `NoisedSumState` in it."""
    return tree.traverse(lambda x: change(x) if isinstance(x, NoisedSumState) else None, state)


def _query_state(state: Any) -> NoisedSumState:
    found: list[NoisedSumState] = []

    def note(query: NoisedSumState) -> NoisedSumState:
        found.append(query)
        return query

    map_query_states(state, note)
    if len(found) != 1:
        raise ValueError(f"The process has {len(found)} private sums in its state; 1 is needed.")
    return found[0]


def _replaced(output: Any, state: Any) -> Any:
    """Returns a named tuple or an attrs object with another state."""
    if hasattr(output, "_replace"):
        return output._replace(state=state)
    return type(output)(state, output.result, output.measurements)
