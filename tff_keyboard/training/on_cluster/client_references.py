"""Names of a round's clients, which travel to a node instead of their text.

A name is a position among the sorted clients of a store. The training batches of a client are a
pure function of the config, the round and the position, so a node with the same store makes the
same batches. The cards of the stores are compared; they contain a digest of every message.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms import federated_evaluation
from tff_keyboard.algorithms.cohort_batcher import CohortBatcher
from tff_keyboard.algorithms.fine_tuning import rehearsal
from tff_keyboard.config import RunConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.training import client_inputs, validation
from tff_keyboard.training.on_cluster.store_references import StoreReference


@dataclasses.dataclass(frozen=True)
class Recipe:
    """Everything that determines the data of a run's clients besides their names."""

    config_text: str
    # path in the config and name of each store of the run
    stores: tuple[tuple[str, StoreReference], ...]

    @classmethod
    def of(cls, config: RunConfig, *stores: ClientStore | None) -> "Recipe":
        """Returns the recipe of a run and its stores as they are opened here."""
        opened = [store for store in stores if store is not None]
        found = [(str(store.directory), StoreReference.of(store)) for store in opened]
        return cls(config_lib.dump(config), tuple(found))

    @functools.cached_property
    def config(self) -> RunConfig:
        return config_lib.loads(self.config_text)

    def store(self, path: str) -> ClientStore:
        """Returns this machine's copy of a store named in the config."""
        return dict(self.stores)[str(pathlib.Path(path))].open()

    def train_packs(
        self, batcher: CohortBatcher, round_num: int, groups: Sequence[Sequence[int]]
    ) -> "list[TrainPack]":
        """Names the packs of a round: groups as `CohortInputs.round_plan` returns them."""
        return [TrainPack(self, tuple(map(int, group)), batcher, round_num) for group in groups]

    def evaluation_packs(
        self, store: ClientStore, groups: Sequence[Sequence[int]]
    ) -> "list[EvaluationPack]":
        """Names packs of a store's validation clients."""
        path = str(store.directory)
        return [EvaluationPack(self, tuple(map(int, group)), path) for group in groups]


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
    store_path: str

    def make(self) -> Any:
        """Returns the pack from this machine's copy of the store."""
        clients = _evaluation_batches(self.recipe, self.store_path)
        (pack,) = federated_evaluation.packs_of(clients, [self.clients])
        return pack


@functools.lru_cache(maxsize=2)
def _cohorts(recipe: Recipe) -> client_inputs.CohortInputs:
    config = recipe.config
    store = recipe.store(config.data.store)
    method = config.fine_tuning
    general = recipe.store(method.general_store) if method.general_store else None
    return client_inputs.CohortInputs(config, store, rehearsal.build_rehearsal(method, general))


@functools.lru_cache(maxsize=4)
def _evaluation_batches(recipe: Recipe, store_path: str) -> list[list[Any]]:
    config = recipe.config
    return client_inputs.evaluation_clients_batches(
        recipe.store(store_path),
        validation.POPULATION,
        config.evaluation,
        max_length=config.data.max_length,
    )
