"""How the clients of a round are handed to a learning process: in packs, or each by itself.

In packs where the config and the process allow it (`packs/compiler.py`): several times faster for
clients with little text. The cut into packs is a pure function of the cohort and the config.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation.host_noise import NoisedProcess
from tff_keyboard.config import RunConfig
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.packs import compiler, cut, elements

# What a client costs besides its tokens (weights, delta, protections, sums), in tokens; see
# docs/performance.md. It balances packs and changes nothing else.
_TOKENS_PER_CLIENT = 60

# Batches of each client, [messages, time + 1] int32 arrays; tokens of each -> what `next` takes.
Deliver: TypeAlias = Callable[[Sequence[Sequence[np.ndarray]], Sequence[int]], list[Any]]


class Delivery(NamedTuple):
    """What a training runs.

    Attributes:
      process: `next(state, deliver(...))` is a round.
      deliver: From the cohort's batches to what `process.next` takes.
      note: Why clients come one by one although the config asks for packs, or "".
    """

    process: Any
    deliver: Deliver
    note: str = ""


def build_delivery(process: Any, config: RunConfig) -> Delivery:
    """The process as the training runs it, and what hands it its clients.

    Args:
      process: From `build_process`.
      config: Of the run; `execution.clients_per_pack` = 1 means one by one.
    """
    if isinstance(process, NoisedProcess):
        inner = build_delivery(process.process, config)
        return inner._replace(process=process.around(inner.process))
    parts = config.execution.sub_rounds or 1
    per_pack = config.execution.clients_per_pack
    if not isinstance(process, tff.learning.templates.LearningProcess):
        note = "this process trains each client by itself" if per_pack != 1 else ""
        return Delivery(process, one_by_one(parts), note)
    spec = compiler.element_spec(process.next)
    if per_pack == 1:
        return Delivery(process, one_by_one(parts, spec))
    try:
        packed = compiler.PackedProcess(process)
    except compiler.CannotPackError as error:
        return Delivery(process, one_by_one(parts, spec), str(error))
    return Delivery(packed, in_packs(parts, per_pack, spec))


def one_by_one(sub_rounds: int, spec: Any = batches_lib.ELEMENT_SPEC) -> Deliver:
    """A dataset for each client, in the order of `largest_first`.

    Args:
      sub_rounds: Parts of the round.
      spec: Of the datasets' elements: batches, or all of a client's joined.
    """

    def dataset(client: Sequence[np.ndarray]) -> tf.data.Dataset:
        if not _is_joined(spec):
            return batches_lib.batches_dataset(client)
        return elements.joined_dataset(map(batches_lib.split, client), batches_lib.ELEMENT_SPEC)

    def deliver(clients, sizes):
        return [dataset(clients[position]) for position in largest_first(sizes, sub_rounds)]

    return deliver


def in_packs(sub_rounds: int, clients_per_pack: int, spec: Any) -> Deliver:
    """Packs of like size, those of a sub-round one after the other.

    Args:
      sub_rounds: Parts of the round.
      clients_per_pack: As `packs.cut.num_packs` takes it.
      spec: Of an element of the process's sequences: batches, or all of a client's joined.
    """

    def elements_of(client: Sequence[np.ndarray]) -> list[Any]:
        split = [batches_lib.split(batch) for batch in client]
        return [elements.join(split, batches_lib.ELEMENT_SPEC)] if _is_joined(spec) else split

    def deliver(clients, sizes):
        costs = [size + _TOKENS_PER_CLIENT for size in sizes]
        packs = cut.num_packs(len(clients), clients_per_pack, sub_rounds)
        dealt = cut.deal(costs, packs)
        order = largest_first([sum(costs[p] for p in pack) for pack in dealt], sub_rounds)
        return [
            compiler.make_pack([elements_of(clients[p]) for p in dealt[position]], spec)
            for position in order
        ]

    return deliver


def largest_first(sizes: Sequence[int], num_parts: int) -> list[int]:
    """The order in which clients are handed to the workers: large ones first.

    A worker trains as many clients at a time as it has cores; when the largest comes last, one core
    trains it and the others wait. The list is cut into `num_parts` runs afterwards, so clients are
    dealt out to the runs in turn, and no run has all the large ones.

    Args:
      sizes: Tokens of each client.
      num_parts: Sub-rounds, >= 1.

    Returns:
      Positions in `sizes`, each once.

    >>> largest_first([10, 40, 20, 30], 1), largest_first([10, 40, 20, 30], 2)
    ([1, 3, 2, 0], [1, 2, 3, 0])
    """
    by_size = sorted(range(len(sizes)), key=lambda position: -sizes[position])  # stable
    return [position for part in range(num_parts) for position in by_size[part::num_parts]]


def _is_joined(spec: Any) -> bool:
    joined = elements.joined_spec(batches_lib.ELEMENT_SPEC)
    return len(tf.nest.flatten(spec)) == len(tf.nest.flatten(joined))
