"""The clients of a round by name: what travels to a node instead of their text.

A name is a position among the sorted clients of a store. What a client trains on is a pure function
of the config, the round and that position, so whoever has the same store (its card is compared,
which has a digest of every message) makes the same batches.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Sequence
from typing import Any

from tff_keyboard import config as config_lib
from tff_keyboard.config import RunConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.federated.algorithms.fine_tuning import rehearsal
from tff_keyboard.federated.learning import client_inputs, federated_evaluation, validation
from tff_keyboard.federated.learning.client_delivery import Handover
from tff_keyboard.training.on_cluster.store_references import StoreReference


@dataclasses.dataclass(frozen=True)
class Recipe:
    """What the data of a run's clients depends on besides their names."""

    config_text: str
    # path in the config and name of each store of the run
    stores: tuple[tuple[str, StoreReference], ...]

    @classmethod
    def of(cls, config: RunConfig, *stores: ClientStore | None) -> "Recipe":
        """Recipe of a run and its stores as they are opened here."""
        opened = [store for store in stores if store is not None]
        found = [(str(store.directory), StoreReference.of(store)) for store in opened]
        return cls(config_lib.dump(config), tuple(found))

    @functools.cached_property
    def config(self) -> RunConfig:
        return config_lib.loads(self.config_text)

    def store(self, path: str) -> ClientStore:
        """The store that the config names, where it is on this machine."""
        return dict(self.stores)[str(pathlib.Path(path))].open()

    def train_clients(
        self, handover: Handover, round_num: int, groups: Sequence[Sequence[int]]
    ) -> "TrainClients":
        """Names what a round takes: groups as `CohortInputs.round_plan` returns them."""
        return TrainClients(self, as_groups(groups), handover, round_num)

    def evaluation_clients(
        self, store: ClientStore, groups: Sequence[Sequence[int]]
    ) -> "EvaluationClients":
        """Packs of a store's validation clients."""
        return EvaluationClients(self, as_groups(groups), str(store.directory))


@dataclasses.dataclass(frozen=True)
class _Groups:
    """Groups of clients, a `program.engines.round_parts.MadeWhereUsed`."""

    recipe: Recipe
    groups: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, key: slice) -> Any:
        return dataclasses.replace(self, groups=self.groups[key])


@dataclasses.dataclass(frozen=True)
class TrainClients(_Groups):
    """Groups of train clients in a round."""

    handover: Handover
    round_num: int

    def make(self) -> list[Any]:
        cohorts = _cohorts(self.recipe)
        return [
            self.handover.make([cohorts.batches(self.round_num, index) for index in group])
            for group in self.groups
        ]


@dataclasses.dataclass(frozen=True)
class EvaluationClients(_Groups):
    """Packs of positions among `client_inputs.evaluation_clients`."""

    store_path: str

    def make(self) -> list[Any]:
        clients = _evaluation_batches(self.recipe, self.store_path)
        return federated_evaluation.packs_of(clients, self.groups)


def as_groups(groups: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Lists of positions as they are kept here."""
    return tuple(tuple(map(int, group)) for group in groups)


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
