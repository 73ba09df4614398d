"""Central training on a node of a cluster: the state travels, the text does not.

A round is one item of work, a pure function of the run's config, the state and the round, and so is
a validation of the state's model. The node has the messages in its own store. A node that is lost
costs the round it was at: another one begins it again with the same state.
"""

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.federated.algorithms.fine_tuning.rehearsal import build_rehearsal
from tff_keyboard.federated.learning import validation
from tff_keyboard.models import build_model
from tff_keyboard.program.cluster.node import NodeOptions
from tff_keyboard.program.cluster.ray_engine import RayEngine
from tff_keyboard.program.engines import engine
from tff_keyboard.program.rounds.round_process import RoundOutput, RoundProcess
from tff_keyboard.training.central.central_process import build_central_process
from tff_keyboard.training.central.central_training import PooledInputs
from tff_keyboard.training.on_cluster import store_references
from tff_keyboard.training.on_cluster.client_references import Recipe
from tff_keyboard.training.on_cluster.node_timings import NodeTimings


@dataclasses.dataclass(frozen=True)
class _Function:
    """An `engine.Function` of a run's recipe."""

    recipe: Recipe

    @property
    def key(self) -> str:
        text = repr((type(self).__name__, self.recipe.config_text, self.recipe.stores))
        return hashlib.sha256(text.encode()).hexdigest()


class CentralRound(_Function):
    """What is shared is the state, an item is the number of a round."""

    def __call__(self, place: engine.Place, state: Any, round_num: int) -> RoundOutput:
        pooled, process = _training(self.recipe)
        data, _ = pooled.round_input(round_num)
        return process.next(state, data)


class CentralValidation(_Function):
    """What is shared is `ModelWeights`, an item is a store's path."""

    def __call__(
        self, place: engine.Place, weights: Any, store_path: str
    ) -> Mapping[str, np.ndarray]:
        return _evaluate(self.recipe, store_path)(weights)


class CentralNode:
    """The node of a run."""

    def __init__(self, config: RunConfig, engine: RayEngine, *stores: ClientStore | None):
        self._recipe = Recipe.of(config, *stores)
        self._engine = engine

    def around(self, process: RoundProcess) -> "OnNode":
        """The process whose rounds are computed on the node; its data are numbers of rounds."""
        return OnNode(process, functools.partial(self._compute, CentralRound(self._recipe)))

    def evaluate_on(self, store: ClientStore) -> validation.Evaluate:
        """Like `validation.in_this_process`, but on the node."""
        function = CentralValidation(self._recipe)
        return lambda weights: self._compute(function, weights, str(store.directory))

    def around_lines(self, path: Any) -> Callable[[Any], NodeTimings]:
        """What `train_run` puts around the lines it shows; `path` is of the timings."""
        return lambda lines: NodeTimings(path, self._engine, lines)

    def _compute(self, function: engine.Function, shared: Any, item: Any) -> Any:
        job = engine.Job(function, shared, [item])
        with contextlib.closing(self._engine.run(job)) as results:
            ((_, result),) = results
        return result


class OnNode:
    """A `RoundProcess`; see `CentralNode.around`."""

    def __init__(self, process: RoundProcess, compute: Callable[[Any, int], RoundOutput]):
        self._process = process
        self._compute = compute

    def initialize(self) -> Any:
        """Initial state of the process."""
        return self._process.initialize()

    def next(self, state: Any, round_num: Any, /) -> RoundOutput:
        """A round by its number."""
        return self._compute(state, round_num)

    def get_model_weights(self, state: Any, /) -> Any:
        """Model weights of the process."""
        return self._process.get_model_weights(state)


@contextlib.contextmanager
def node_of(config: RunConfig, *stores: ClientStore | None) -> Iterator[CentralNode | None]:
    """A node of the cluster for a run; None where `execution.engine` is "local"."""
    if config.execution.engine == "local":
        yield None
        return
    one = dataclasses.replace(config.execution.cluster, min_nodes=1, max_nodes=1)
    files = store_references.files_of(*stores)
    with contextlib.closing(RayEngine(one, NodeOptions(at_once=False), files)) as found:
        yield CentralNode(config, found, *stores)


@functools.lru_cache(maxsize=1)
def _training(recipe: Recipe) -> tuple[PooledInputs, RoundProcess]:
    config = recipe.config
    store = recipe.store(config.data.store)
    model = build_model(
        config.model.name,
        vocabulary_size=len(store.vocabulary),
        seed=config.train.seed,
        **config.model.options(),
    )  # its weights come with each state
    method = config.fine_tuning
    general = recipe.store(method.general_store) if method.general_store else None
    pooled = PooledInputs(config, store, build_rehearsal(method, general))
    return pooled, build_central_process(config, model)


@functools.lru_cache(maxsize=2)
def _evaluate(recipe: Recipe, store_path: str) -> validation.Evaluate:
    return validation.in_this_process(recipe.config)(recipe.store(store_path))
