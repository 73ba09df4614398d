"""Cuts the clients of a round into packs for a learning process.

A pack is one call of TensorFlow (`client_packing/round_form.py`). If clients have little text, this
is several times faster than one call for each client. The packs are a pure function of the cohort
and the config.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tff_keyboard.algorithms.client_packing import load_balancing, round_form
from tff_keyboard.algorithms.client_packing.local_context import NOT_LOCAL
from tff_keyboard.algorithms.client_packing.round_form import CannotPackError
from tff_keyboard.algorithms.rounds.packed import PackedProcess
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.data import elements
from tff_keyboard.execution.engine import Engine
from tff_keyboard.storage.errors import printable

# Cost of a client besides its tokens (weights, update, protections, sums), in tokens; see
# docs/performance.md. It balances packs and changes nothing else.
_TOKENS_PER_CLIENT = 60


# (batches of each client, [messages, time + 1] int32 arrays; tokens of each) -> input of `next`.
MakeDatasets: TypeAlias = Callable[[Sequence[Sequence[np.ndarray]], Sequence[int]], list[Any]]


@dataclasses.dataclass(frozen=True)
class CohortBatcher:
    """Makes the input of `next` from a cohort: `MakeDatasets` in two steps. It can be pickled.

    `plan` needs only the sizes of the clients, and `make` needs only the clients of one pack, so
    `make` can run on another node.
    """

    clients_per_pack: int | None = 0  # see `load_balancing.num_packs`; None: one dataset per client
    is_joined: bool = False  # whether a client's batches are one element, see `data/elements.py`
    counts_tokens: bool = False  # whether little text makes fewer packs: `num_packs(tokens=...)`

    def __call__(self, clients: Sequence[Sequence[np.ndarray]], sizes: Sequence[int]) -> list[Any]:
        return [self.make([clients[p] for p in group]) for group in self.plan(sizes)]

    def plan(self, sizes: Sequence[int]) -> list[list[int]]:
        """Returns packs of similar size, largest first, as positions in `sizes` (tokens)."""
        if self.clients_per_pack is None:
            return [[position] for position in range(len(sizes))]
        costs = [size + _TOKENS_PER_CLIENT for size in sizes]
        tokens = int(sum(sizes)) if self.counts_tokens else None
        return load_balancing.balance_load(
            costs, load_balancing.num_packs(len(sizes), self.clients_per_pack, tokens)
        )

    def make(self, clients: Sequence[Sequence[np.ndarray]]) -> Any:
        """Returns a pack of clients, or the dataset of one client, from the batches of each."""
        if self.clients_per_pack is None:
            (client,) = clients
            return batches_lib.batches_dataset(client)
        if self.is_joined:
            spec = batches_lib.BATCH_SPEC
            joined = [[elements.join(client, spec)] for client in clients]
            return round_form.make_pack(joined, elements.joined_spec(spec))
        split = [[batches_lib.split(batch) for batch in client] for client in clients]
        return round_form.make_pack(split, batches_lib.ELEMENT_SPEC)


class PreparedProcess(NamedTuple):
    """A learning process as the training runs it, and its `CohortBatcher`."""

    process: Any
    batcher: CohortBatcher
    packed: PackedProcess | None  # the process; None without packs

    def pop_aggregation_seconds(self) -> float | None:
        """Returns `PackedProcess.pop_aggregation_seconds`, or None if it is not measured."""
        return self.packed.pop_aggregation_seconds() if self.packed else None


def prepare_process(
    process: Any,
    *,
    clients_per_pack: int = 0,
    engine: Engine | None = None,
    allow_tff_server: bool = False,
) -> PreparedProcess:
    """Returns the process as the training runs it, and the `CohortBatcher` of its clients.

    Args:
      process: A learning process.
      clients_per_pack: Largest number of clients of a pack, >= 0. 0 means 16 packs per round.
      engine: Computes the packs. None means threads of this process.
      allow_tff_server: Whether a process that cannot be packed is returned as it is. Its rounds
        need a default context that runs them, such as `local_context(allow_tff_server=True)`.

    Raises:
      CannotPackError: If the process cannot be packed, and no server is allowed.
    """
    try:
        packed = PackedProcess(process, engine)
    except CannotPackError as error:
        if not allow_tff_server:
            reason = printable(str(error)).rstrip(".")
            raise CannotPackError(
                f"Cannot train clients in packs: {reason}. {NOT_LOCAL}."
            ) from error
        print(
            "Cannot train clients in packs, so they train in TFF's own context, which is slower "
            f"and starts a server process: {error}"
        )
        return PreparedProcess(process, CohortBatcher(None), None)
    is_joined = elements.is_joined(packed.element_spec, batches_lib.BATCH_SPEC)
    batcher = CohortBatcher(clients_per_pack, is_joined, packed.shares_row_work)
    return PreparedProcess(packed, batcher, packed)
