"""Gives a private process the noise of each round, and keeps it out of what the round loop sees.

A private aggregator (`noised_sum.py`) has a slot for a round's noise in its state. Here a process
(an aggregation or a learning process) is wrapped: before a round the slot is filled, after it the
slot is emptied, so that states that are kept, checkpointed or compared hold no noise.
"""

import copy
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import tree

from tff_keyboard.config.sections.privacy_config import MechanismConfig
from tff_keyboard.federated.aggregation.private.noised_sum import (
    EMPTY_ROUND,
    NoisedSumState,
    NoiseSlot,
)
from tff_keyboard.privacy.mechanisms.mechanism import mechanism_of

# Round (rounds done before it) to noise, [size] float64.
NoiseOfRound = Callable[[int], np.ndarray]


class NoisedProcess:
    """Looks like the process it wraps to whoever runs rounds.

    `process` has `initialize()` and `next(state, ...)`, and exactly one `NoisedSumState` in its
    state, else a `ValueError`. `build_noise` makes the noise of any round from the size of a
    round's.
    """

    def __init__(self, process: Any, build_noise: Callable[[int], NoiseOfRound]):
        self.process = process
        self._initial = process.initialize()
        self._size = len(_query_state(self._initial).slot.values)
        self._noise = build_noise(self._size)

    def around(self, process: Any) -> "NoisedProcess":
        """The same noise for another form of the same process, with the same states."""
        other = copy.copy(self)
        other.process = process
        return other

    def initialize(self) -> Any:
        """The initial state, its slot empty."""
        return self._with_slot(self._initial, EMPTY_ROUND, np.zeros(0))

    def next(self, state: Any, *arguments: Any) -> Any:
        """One round: the output of the process, the slot of its state empty."""
        round_num = int(_query_state(state).round)
        filled = self._with_slot(state, round_num, self._noise(round_num))
        output = self.process.next(filled, *arguments)
        emptied = self._with_slot(output.state, EMPTY_ROUND, np.zeros(0))
        return _replaced(output, state=emptied)

    def get_model_weights(self, state: Any) -> Any:
        """Model weights; see `tff.learning.templates.LearningProcess`."""
        full = self._with_slot(state, EMPTY_ROUND, np.zeros(self._size))
        return self.process.get_model_weights(full)

    def _with_slot(self, state: Any, round_num: int, values: np.ndarray) -> Any:
        slot = NoiseSlot(np.int64(round_num), values)
        return map_query_states(state, lambda query: query._replace(slot=slot))


def with_noise(
    process: Any,
    privacy: MechanismConfig,
    *,
    rounds: int,
    min_separation_rounds: int = 1,
    momentum: float = 0.0,
    key: bytes | None = None,
) -> NoisedProcess:
    """A private process with the noise of its mechanism, drawn outside of TFF in double precision.

    Args:
      process: Learning or aggregation process over `PrivateMean` or `PrivateFedAtt`.
      privacy: Config of the mechanism: `privacy` of the factory.
      rounds: Rounds of the run, for which correlated noise is optimised.
      min_separation_rounds: Rounds from one participation of a person to the next, >= 1.
      momentum: Momentum of the server's optimizer, for correlated noise.
      key: Secret of 32 bytes. The same run goes on with the same key; no other run may ever use it,
        as the difference of their sums would have no noise. None: a fresh one, kept nowhere.

    Returns:
      What has `initialize`, `next` and `get_model_weights` of the process.

    Raises:
      ValueError: It is not private, the key has another length, or the schedule is out of range.
    """
    key = secrets.token_bytes(32) if key is None else key
    if len(key) != 32:
        raise ValueError(f"`key` must be 32 bytes, got {len(key)}. Use `secrets.token_bytes(32)`.")
    mechanism = mechanism_of(
        privacy, rounds=rounds, min_separation_rounds=min_separation_rounds, momentum=momentum
    )
    return NoisedProcess(process, mechanism.keyed_noise(key))


def map_query_states(state: Any, change: Callable[[NoisedSumState], NoisedSumState]) -> Any:
    """`state` with `change` applied to every `NoisedSumState` in it."""
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
    """A named tuple or an attrs object with another state."""
    if hasattr(output, "_replace"):
        return output._replace(state=state)
    return type(output)(state, output.result, output.measurements)
