"""Supplies the noise of each round to a private process, and removes it from the process's state.

A private aggregator (`noised_sum.py`) has a slot for a round's noise in its state. This module
wraps a process (an aggregation or a learning process): the slot is filled before a round and
emptied after it, so that states that are stored, checkpointed or compared contain no noise.

If a key does not determine the sums of the rounds, the noise of each round depends on a tag of what
it hides (`privacy/mechanisms/noise_content.py`): of the data from which this package computes the
sum, or, if code of a user takes part, of the sum itself, which is then computed before the noise is
drawn. Code that gives another sum each time it runs has other noise each time. Between rounds the
slot contains the tags of all rounds so far, so that a state is enough to continue, and a state with
another history continues with other noise.
"""

import dataclasses
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import tensorflow as tf
import tree

from tff_keyboard.aggregators.private.noised_sum import EMPTY_ROUND, NoisedSumState, NoiseSlot
from tff_keyboard.algorithms.client_packing import round_form
from tff_keyboard.algorithms.client_packing.local_context import LocalContext
from tff_keyboard.privacy.mechanisms import noise_content, noise_key
from tff_keyboard.privacy.mechanisms.mechanism import Mechanism


class NoiseOfRound(Protocol):
    """The noise of any round of a mechanism; see `noise_streams.NoiseOfRounds`."""

    def __call__(self, round_num: int, tags: Sequence[str] = ()) -> np.ndarray:
        """Returns the noise of the round after `round_num` rounds, [size] float64."""


@dataclasses.dataclass(frozen=True)
class ContentTags:
    """How the content of a round becomes a tag, if the noise key does not determine it.

    Attributes:
      key: Key of the tags, 32 bytes.
      is_of_sums: Whether the content is the sum of the round. If not, it is the arguments of
        `next`: the state before the round and its data, if both determine the sum.
    """

    key: bytes = dataclasses.field(repr=False)
    is_of_sums: bool = False

    def next(self, tags: Sequence[str], content: Any) -> str:
        """Returns the tag of a round with a content, given the tags of the rounds before it."""
        return noise_content.next_tag(self.key, tags, digest_of_data(content))


class NoisedProcess:
    """A process with noise, which has the same interface as the wrapped process.

    `process` has `initialize()` and `next(state, ...)`, and exactly one `NoisedSumState` in its
    state, or a `ValueError` is raised. `build_noise` returns the noise of any round, given the size
    of a round's noise. `content` binds the noise of each round to its content. It can be None only
    if the noise key determines the sum of every round. With `content.is_of_sums`, `next` has to run
    in this process (`client_packing/round_form.py`).
    """

    def __init__(
        self,
        process: Any,
        build_noise: Callable[[int], NoiseOfRound],
        content: ContentTags | None = None,
    ):
        self.process = process
        self._initial = process.initialize()
        self._size = len(_query_state(self._initial).slot.values)
        self._noise = build_noise(self._size)
        self._content = content

    def initialize(self) -> Any:
        """Returns the initial state, with an empty slot."""
        return self._with_empty_slot(self._initial, ())

    def next(self, state: Any, *arguments: Any) -> Any:
        """Runs one round. Returns the output of the process, with an empty slot in its state.

        Raises `ValueError` if the state has no tags of its earlier rounds.
        """
        round_num = int(_query_state(state).round)
        if self._content is None:
            filled = _with_slot(state, round_num, self._noise(round_num))
            output = self.process.next(filled, *arguments)
            return _with_state(output, state=self._with_empty_slot(output.state, ()))
        tags = content_tags(state)
        if len(tags) != round_num:
            raise ValueError(
                f"The state of round {round_num} has the data tags of {len(tags)} rounds. Pass "
                "a state that this process returned."
            )
        if self._content.is_of_sums:
            output = self._next_by_sums(self._content, tags, state, arguments)
        else:
            tags.append(self._content.next(tags, [state, *arguments]))
            filled = _with_slot(state, round_num, self._noise(round_num, tags))
            output = self.process.next(filled, *arguments)
        return _with_state(output, state=self._with_empty_slot(output.state, tags))

    def _next_by_sums(
        self, content: ContentTags, tags: list[str], state: Any, arguments: Sequence[Any]
    ) -> Any:
        """Runs one round, draws its noise when its sums are computed, and adds its tag to `tags`.

        The noise takes the place of two arrays, which are recognised as objects. If it cannot, the
        round fails.
        """
        round_num = len(tags)
        placeholder = NoiseSlot(np.array(EMPTY_ROUND, np.int64), np.full(self._size, np.nan))

        def fill(server: Sequence[Any], sums: Sequence[np.ndarray]) -> list[Any]:
            """Puts the noise of these sums into its slot in the state at the server."""
            # With the state: another clip norm would scale the same draws, which then cancel.
            tags.append(content.next(tags, [state, list(sums)]))
            noise = {
                id(placeholder.round): np.int64(round_num),
                id(placeholder.values): self._noise(round_num, tags),
            }
            if sum(id(leaf) in noise for leaf in server) != len(noise):
                raise RuntimeError("The state of a private round has no slot for its noise.")
            return [noise.get(id(leaf), leaf) for leaf in server]

        with round_form.before_update(fill):
            output = self.process.next(
                map_query_states(state, lambda query: query._replace(slot=placeholder)), *arguments
            )
        if len(tags) != round_num + 1:
            raise RuntimeError(
                "A private round must consist of one sum over clients, computed in this process, "
                f"so that its noise can belong to the sum. It has {len(tags) - round_num}."
            )
        return output

    def get_model_weights(self, state: Any) -> Any:
        """Returns the model weights; see `tff.learning.templates.LearningProcess`."""
        return self.process.get_model_weights(_with_slot(state, EMPTY_ROUND, np.zeros(self._size)))

    def _with_empty_slot(self, state: Any, tags: Sequence[str]) -> Any:
        """Returns the state without noise. Its slot has only the tags of the rounds, as text."""
        values = np.zeros(0)
        if self._content is not None:
            values = np.array(tags, f"S{noise_content.DIGITS}")
        return _with_slot(state, EMPTY_ROUND, values)


def content_tags(state: Any) -> list[str]:
    """Returns the tags of the data of all rounds in a state between rounds.

    Returns [] if the noise does not depend on tags.
    """
    values = np.asarray(_query_state(state).slot.values)
    return [tag.decode() for tag in values.tolist()] if values.dtype.kind == "S" else []


def last_content_tag(state: Any) -> str:
    """Returns the tag of the data of the last round in a state, or "" without tags."""
    return next(reversed(content_tags(state)), "")


def content_of_data(key: bytes) -> ContentTags:
    """Returns the rule that makes a round's tag from its state and all its data.

    `key` is the noise key, 32 bytes.
    """
    return ContentTags(noise_key.tag_key(key))


def content_of_sums(key: bytes) -> ContentTags:
    """Returns the rule that makes a round's tag from its sum, under a noise key of 32 bytes."""
    return ContentTags(noise_key.tag_key(key), is_of_sums=True)


def digest_of_data(values: Any) -> bytes:
    """Returns the SHA-256 of a nest of arrays, tensors, numbers, strings and `tf.data.Dataset`s.

    A dataset is read twice, completely.

    Raises:
      TypeError: If a leaf is another object.
      ValueError: If a dataset has other elements when it is read again.
    """
    first = _digest_once(values)
    has_dataset = any(isinstance(leaf, tf.data.Dataset) for leaf in tree.flatten(values))
    if has_dataset and _digest_once(values) != first:
        raise ValueError(
            "A dataset of a private round has other elements each time it is read, so its noise "
            "cannot belong to its data. Shuffle with `reshuffle_each_iteration=False` and a seed, "
            "or before you build the dataset."
        )
    return first


def _digest_once(values: Any) -> bytes:
    """Returns the SHA-256 of the values, which reads each dataset in them once."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        for path, leaf in tree.flatten_with_path(value):
            if isinstance(leaf, tf.data.Dataset):
                digest.update(f"{path} dataset".encode())
                for element in leaf.as_numpy_iterator():
                    add(element)
                continue
            array = np.ascontiguousarray(leaf)
            digest.update(f"{path} {array.dtype.str} {array.shape} ".encode())
            if array.dtype.kind == "O":
                content = array.tolist()
                if not all(isinstance(item, bytes | str) for item in tree.flatten(content)):
                    raise TypeError(
                        f"The data of a private round must be arrays, got {type(leaf).__name__} at "
                        f"{path}."
                    )
                digest.update(repr(content).encode())
            elif array.size:
                digest.update(array.reshape(-1).view(np.uint8).data)
        digest.update(b" end ")

    add(values)
    return digest.digest()


@runtime_checkable
class PrivateFactory(Protocol):
    """A factory whose aggregate contains noise: `PrivateMean` or `PrivateFedAtt`."""

    @property
    def noise_facts(self) -> Mapping[str, float | str]:
        """The options that determine the size of the noise, for its key."""

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

    The noise of a round depends on the key, on the factory and the mechanism, on the state before
    the round, and on the sums of this round and of the rounds before it. If all of these are equal,
    the noise is equal, so a round can be repeated after a crash. Otherwise it is independent, also
    if the process, the data, or random numbers in the work of clients are others. Rounds run in
    this process, with any default context, because the noise is drawn between the sum and the
    server's update.

    Args:
      process: Learning or aggregation process of `factory`.
      factory: `PrivateMean` or `PrivateFedAtt`.
      rounds: Rounds of the run, for which correlated noise is optimised.
      min_separation_rounds: Rounds from one participation of a client to the next, >= 1.
      momentum: Momentum of the server's optimizer, for correlated noise.
      key: Secret of 32 bytes. A resumed run uses the same key. None uses a fresh key, which is not
        stored.

    Returns:
      An object with `initialize`, `next` and `get_model_weights` of the process.

    Raises:
      ValueError: If the process is not private or cannot run in this process, the key has another
        length, or the schedule is out of range.
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
    facts = {
        "factory": type(factory).__name__,
        **factory.noise_facts,
        "mechanism": dataclasses.asdict(mechanism),
    }
    bound = noise_key.bound_key(key, facts)
    local_process = _ProcessHere(process)
    return NoisedProcess(local_process, mechanism.keyed_noise(bound), content_of_sums(bound))


class _ProcessHere:
    """A process whose computations run in this process, with any default context."""

    def __init__(self, process: Any):
        context = LocalContext()
        self.initialize = context.function(process.initialize)
        self.next = context.function(process.next)
        if hasattr(process, "get_model_weights"):
            self.get_model_weights = context.function(process.get_model_weights)


def map_query_states(state: Any, change: Callable[[NoisedSumState], NoisedSumState]) -> Any:
    """Returns `state` with `change` applied to every `NoisedSumState` in it."""
    return tree.traverse(lambda x: change(x) if isinstance(x, NoisedSumState) else None, state)


def _with_slot(state: Any, round_num: int, values: np.ndarray) -> Any:
    """Returns the state with these values as the noise of a round."""
    slot = NoiseSlot(np.int64(round_num), values)
    return map_query_states(state, lambda query: query._replace(slot=slot))


def _query_state(state: Any) -> NoisedSumState:
    """Returns the only `NoisedSumState` in a state."""
    query_states: list[NoisedSumState] = []

    def collect(query: NoisedSumState) -> NoisedSumState:
        query_states.append(query)
        return query

    map_query_states(state, collect)
    if len(query_states) != 1:
        raise ValueError(
            f"The process has {len(query_states)} private sums in its state; 1 is needed."
        )
    return query_states[0]


def _with_state(output: Any, state: Any) -> Any:
    """Returns a named tuple or an attrs object with another state."""
    if hasattr(output, "_replace"):
        return output._replace(state=state)
    return type(output)(state, output.result, output.measurements)
