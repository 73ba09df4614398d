"""Where work is computed: an interface of three methods, above which everything is the same.

Work is a `Job`: a function, what all items share, and the items, each a pure function of the three:
an item may be computed anywhere, twice at once, or again after a loss. `LocalEngine` computes on
the workers of this machine, the engine of `program/cluster` on the nodes of a Ray cluster.
"""

import dataclasses
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import tensorflow_federated as tff


class Place(Protocol):
    """One of the places where items are computed, an item at a time."""

    @property
    def context(self) -> "tff.framework.SyncContext":
        """TFF's context on a worker of the place; it is started when it is first asked for."""


class Function(Protocol):
    """What a job does with an item. Pickles where the engine has nodes.

    Attributes:
      key: Names what it does, and is sent: functions with the same key are the same.
    """

    @property
    def key(self) -> str: ...

    def __call__(self, place: Place, shared: Any, item: Any, /) -> Any: ...


@dataclasses.dataclass(frozen=True)
class Job:
    """Items of work."""

    function: Function  # sent to a node once, whatever the number of jobs
    shared: Any  # what each item needs; sent to a node once a job
    items: Sequence[Any]


class Engine(Protocol):
    """Computes jobs."""

    def run(self, job: Job) -> Generator[tuple[int, Any], None, None]:
        """The position and the result of each item, each once, in any order.

        Closing the iterator gives up what is not done. What an item raises comes out of it.
        """

    def place_names(self) -> Sequence[str]:
        """Names of the places that compute now, for people."""

    def close(self) -> None:
        """Ends what the engine started; what still runs fails."""
