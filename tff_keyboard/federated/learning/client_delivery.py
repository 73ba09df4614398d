"""How the clients of a round are handed to a learning process: in packs, or each by itself.

Clients come in packs where the config and the process allow it (`packs/compiler.py`): several times
faster for clients with little text. The cut into packs is a pure function of the cohort and the
config.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config import RunConfig
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.federated.aggregation.private.host_noise import NoisedProcess
from tff_keyboard.packs import compiler, dealing, elements, server_here

# What a client costs besides its tokens (weights, delta, protections, sums), in tokens; see
# docs/performance.md. It balances packs and changes nothing else.
_TOKENS_PER_CLIENT = 60

# Batches of each client, [messages, time + 1] int32 arrays; tokens of each -> what `next` takes.
Deliver: TypeAlias = Callable[[Sequence[Sequence[np.ndarray]], Sequence[int]], list[Any]]


@dataclasses.dataclass(frozen=True)
class Handover:
    """How a cohort becomes what `next` takes: a `Deliver` of two steps, which pickles.

    `plan` needs to know no more of the clients than how much they have, and `make` nothing of the
    cohort, so the second can be done elsewhere.
    """

    sub_rounds: int
    # clients a pack (`packs.dealing.num_packs`); None: a dataset for each client
    clients_per_pack: int | None = None
    is_joined: bool = False  # whether a client's batches are one element, see `packs/elements.py`

    def __call__(self, clients: Sequence[Sequence[np.ndarray]], sizes: Sequence[int]) -> list[Any]:
        return [self.make([clients[p] for p in group]) for group in self.plan(sizes)]

    def plan(self, sizes: Sequence[int]) -> list[list[int]]:
        """Positions in `sizes` (tokens of each client) that `make` is given, each once.

        One by one as `largest_first` says; else packs of like size, a sub-round after the other.
        """
        if self.clients_per_pack is None:
            return [[position] for position in largest_first(sizes, self.sub_rounds)]
        costs = [size + _TOKENS_PER_CLIENT for size in sizes]
        packs = dealing.num_packs(len(sizes), self.clients_per_pack, self.sub_rounds)
        dealt = dealing.deal(costs, packs)
        order = largest_first([sum(costs[p] for p in pack) for pack in dealt], self.sub_rounds)
        return [dealt[position] for position in order]

    def make(self, clients: Sequence[Sequence[np.ndarray]]) -> Any:
        """A pack of clients, or the dataset of the only one, from the batches of each."""
        if self.clients_per_pack is not None:
            spec = batches_lib.ELEMENT_SPEC
            if self.is_joined:
                spec = elements.joined_spec(spec)
            return compiler.make_pack([self._elements(client) for client in clients], spec)
        (client,) = clients
        if not self.is_joined:
            return batches_lib.batches_dataset(client)
        return elements.joined_dataset(map(batches_lib.split, client), batches_lib.ELEMENT_SPEC)

    def _elements(self, client: Sequence[np.ndarray]) -> list[Any]:
        split = [batches_lib.split(batch) for batch in client]
        return [elements.join(split, batches_lib.ELEMENT_SPEC)] if self.is_joined else split


class Delivery(NamedTuple):
    """What a training runs."""

    process: Any
    deliver: Handover
    note: str = ""  # why clients come one by one although the config asks for packs, or ""


def build_delivery(process: Any, config: RunConfig, *, thin: bool = False) -> Delivery:
    """The process as the training runs it, and what hands it its clients.

    `execution.clients_per_pack` = 1 means one by one. `thin` is whether a round in packs is three
    calls (`ThreeCallProcess`), so that no more of the state is sent to clients than they need.
    """
    if isinstance(process, NoisedProcess):
        inner = build_delivery(process.process, config, thin=thin)
        return inner._replace(process=process.around(inner.process))
    parts = config.execution.sub_rounds or 1
    per_pack = config.execution.clients_per_pack
    if not isinstance(process, tff.learning.templates.LearningProcess):
        note = "this process trains each client by itself" if per_pack != 1 else ""
        return Delivery(process, Handover(parts), note)
    is_joined = _is_joined(compiler.element_spec(process.next))
    if per_pack == 1:
        return Delivery(process, Handover(parts, None, is_joined))
    build = compiler.ThreeCallProcess if thin else server_here.ServerHereProcess
    try:
        packed = build(process)
    except compiler.CannotPackError as error:
        return Delivery(process, Handover(parts, None, is_joined), str(error))
    return Delivery(packed, Handover(parts, per_pack, is_joined))


def largest_first(sizes: Sequence[int], num_parts: int) -> list[int]:
    """The order in which clients are handed to the workers: large ones first.

    A worker trains as many clients at a time as it has cores; when the largest comes last, one core
    trains it and the others wait. The list is cut into `num_parts` runs afterwards, so clients are
    dealt out to the runs in turn, and no run has all the large ones.

    >>> largest_first([10, 40, 20, 30], 1), largest_first([10, 40, 20, 30], 2)
    ([1, 3, 2, 0], [1, 2, 3, 0])
    """
    by_size = sorted(range(len(sizes)), key=lambda position: -sizes[position])  # stable
    return [position for part in range(num_parts) for position in by_size[part::num_parts]]


def _is_joined(spec: Any) -> bool:
    joined = elements.joined_spec(batches_lib.ELEMENT_SPEC)
    return len(tf.nest.flatten(spec)) == len(tf.nest.flatten(joined))
