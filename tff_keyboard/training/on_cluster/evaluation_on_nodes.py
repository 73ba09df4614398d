"""Evaluates on the nodes of a cluster: the model travels once to each node, and the text never.

A node reads the text from its own store, whose card was compared when the node joined. It counts
the parts of the text that it gets (`evaluation/counts/predictor_evaluation.py`). The sums equal
this machine's to the bit if nodes have as many cores (TensorFlow cuts a matrix product by cores).
"""

import contextlib
import dataclasses
import functools
import hashlib
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tff_keyboard.config.sections.execution_config import ClusterConfig
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.evaluation.counts import predictor_evaluation, typed_text
from tff_keyboard.evaluation.counts.counter import PartCounts
from tff_keyboard.evaluation.counts.predictor_evaluation import Compute
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.execution.engine import Job
from tff_keyboard.predictors.predictor import Predictor
from tff_keyboard.training.on_cluster import store_references
from tff_keyboard.training.on_cluster.store_references import StoreReference

if TYPE_CHECKING:
    from tff_keyboard.execution.cluster.ray_engine import RayEngine


@functools.lru_cache(maxsize=2)
def _text(store: StoreReference, population: str) -> TypedText:
    return typed_text.of_population(store.open(), population)


@dataclasses.dataclass(frozen=True)
class CountPart:
    """An `execution.engine.Function` whose items are parts of a population's text.

    Shared values: the store's name, the population, `max_length` and `reference` of `count_part`.
    """

    content: bytes

    @functools.cached_property
    def key(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    def __call__(
        self,
        shared: tuple[StoreReference, str, int, Vocabulary | None],
        part: slice,
    ) -> PartCounts:
        store, population, max_length, reference = shared
        return predictor_evaluation.count_part(
            self._predictor,
            _text(store, population),
            part,
            max_length=max_length,
            reference=reference,
        )

    @functools.cached_property
    def _predictor(self) -> Predictor:
        return pickle.loads(self.content)

    def close(self) -> None:
        """Does nothing, because parts are short."""

    def __reduce__(self) -> tuple[Any, ...]:
        return CountPart, (self.content,)


@contextlib.contextmanager
def on_nodes(address: str) -> Iterator[Callable[[ClientStore, str], Compute] | None]:
    """Yields the argument `elsewhere` of evaluations; None for the address ""."""
    if not address:
        yield None
        return
    with contextlib.closing(EvaluationOnNodes(address)) as cluster:
        yield cluster.of


class EvaluationOnNodes:
    """Makes the argument `compute` of evaluations."""

    def __init__(self, address: str, tell: Callable[[str], None] = print):
        self._cluster = ClusterConfig(address=address)
        self._tell = tell
        self._engine: RayEngine | None = None
        self._files: dict[str, str] = {}

    def of(self, store: ClientStore, population: str) -> Compute:
        """Returns the function that counts the text of a store's whole population."""
        named = StoreReference.of(store)
        nodes = self._engine_for(store_references.files_of(store))

        def compute(
            predictor: Predictor, text: TypedText, parts: Sequence[slice], **options: Any
        ) -> Iterator[tuple[int, PartCounts]]:
            try:
                function = CountPart(pickle.dumps(predictor))
            except (TypeError, AttributeError, pickle.PicklingError):
                self._tell(
                    "Nodes cannot evaluate this kind of model, so it is evaluated on this machine."
                )
                yield from predictor_evaluation.one_by_one(predictor, text, parts, **options)
                return
            shared = named, population, options["max_length"], options["reference"]
            with contextlib.closing(nodes.run(Job(function, shared, parts))) as results:
                for part_index, counts in results:
                    options["scored"](counts.targets)
                    yield part_index, counts

        return compute

    def _engine_for(self, files: dict[str, str]) -> "RayEngine":
        """Returns the previous engine if it has the same store, else a new one."""
        from tff_keyboard.execution.cluster.ray_engine import RayEngine

        if self._engine is None or files != self._files:
            self.close()
            self._engine = RayEngine(self._cluster, files, tell=self._tell)
            self._files = files
        return self._engine

    def close(self) -> None:
        """Leaves the cluster."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
