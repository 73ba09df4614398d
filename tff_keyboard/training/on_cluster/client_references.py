"""Names of a round's clients, which travel to a node instead of their text.

A name is a position among the sorted clients of a store. The training batches of a client are a
pure function of the config, the round and the position, so a node with the same store makes the
same batches. The cards of the stores are compared; they contain a digest of every message.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from tff_keyboard.algorithms import federated_evaluation
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.config.sections.train_config import EvaluationConfig, TrainConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.parts.client_algorithm import ClientAlgorithm
from tff_keyboard.training import client_inputs, validation
from tff_keyboard.training.on_cluster.store_references import StoreReference


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that determines the data of a run's clients besides their names.

    Attributes:
      store: The clients' store.
      general: The store of rehearsed messages, if any.
      train: The table `[train]`.
      client: The table `[client]`.
      evaluation: The table `[evaluation]`.
      max_length: Largest number of words of a sequence.
      long_messages: Treatment of longer messages; `data.long_messages`.
      rehearsal_portion: Share of rehearsed messages; 0 without rehearsal.
    """

    store: StoreReference
    general: StoreReference | None
    train: TrainConfig
    client: ClientAlgorithm
    evaluation: EvaluationConfig
    max_length: int
    long_messages: str
    rehearsal_portion: float

    def train_packs(
        self, batcher: CohortBatcher, round_num: int, groups: Sequence[Sequence[int]]
    ) -> "list[TrainPack]":
        """Names the packs of a round: groups as `CohortInputs.round_plan` returns them."""
        return [TrainPack(self, tuple(map(int, group)), batcher, round_num) for group in groups]

    def evaluation_packs(
        self, store: ClientStore, groups: Sequence[Sequence[int]]
    ) -> "list[EvaluationPack]":
        """Names packs of a store's validation clients."""
        named = StoreReference.of(store)
        return [EvaluationPack(self, tuple(map(int, group)), named) for group in groups]


@dataclasses.dataclass(frozen=True)
class TrainPack:
    """A pack of train clients in a round, by their positions."""

    recipe: Recipe
    clients: tuple[int, ...]
    batcher: CohortBatcher
    round_num: int

    def make(self) -> Any:
        """Returns the pack from this machine's copy of the store."""
        cohorts = _cohorts(self.recipe)
        batches = [cohorts.batches(self.round_num, client) for client in self.clients]
        return self.batcher.make(batches)


@dataclasses.dataclass(frozen=True)
class EvaluationPack:
    """A pack of positions among `client_inputs.evaluation_clients`."""

    recipe: Recipe
    clients: tuple[int, ...]
    store: StoreReference

    def make(self) -> Any:
        """Returns the pack from this machine's copy of the store."""
        clients = _evaluation_batches(self.recipe, self.store)
        (pack,) = federated_evaluation.packs_of(clients, [self.clients])
        return pack


@functools.lru_cache(maxsize=2)
def _cohorts(recipe: Recipe) -> client_inputs.CohortInputs:
    general = recipe.general
    return client_inputs.CohortInputs(
        recipe.store.open(),
        train=recipe.train,
        client=recipe.client,
        max_length=recipe.max_length,
        long_messages=recipe.long_messages,
        rehearsal=Rehearsal(general.open(), recipe.rehearsal_portion) if general else None,
    )


@functools.lru_cache(maxsize=4)
def _evaluation_batches(recipe: Recipe, store: StoreReference) -> list[list[Any]]:
    return client_inputs.evaluation_clients_batches(
        store.open(), validation.POPULATION, recipe.evaluation, max_length=recipe.max_length
    )
