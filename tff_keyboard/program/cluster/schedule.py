"""Which item of a job is computed next, and when one is computed twice. Knows no Ray and no clock.

Items are pure functions, so whoever is free may compute any of them again. An item goes back to the
queue when its node is lost, is tried a few times when it fails, and is computed by a second node
when it takes much longer than the others (Dean & Ghemawat 2004, section 3.6, "backup tasks").
"""

import collections
import dataclasses
import statistics
from collections.abc import Hashable

_ATTEMPTS = 3
_SLOW_SECONDS = 2.0  # an item that takes less is not worth a second node,
_SLOW_FACTOR = 3.0  # nor one that takes less than this many medians: each job has a last item
_HUNG_SECONDS = 600.0
_HUNG_FACTOR = 20.0
_FIRST_SECONDS = 3600.0  # as long as nobody knows how long an item takes


@dataclasses.dataclass(frozen=True)
class _Run:
    position: int
    start: float


class Schedule:
    """The state of one job.

    A ticket names one computation of an item: any value that is used once.
    """

    def __init__(self, num_items: int):
        self._waiting = collections.deque(range(num_items))
        self._running: dict[Hashable, _Run] = {}
        self._missing = set(range(num_items))
        self._failures: collections.Counter[int] = collections.Counter()
        self._took: list[float] = []

    @property
    def is_done(self) -> bool:
        """Whether every item has a result."""
        return not self._missing

    def next_item(self, now: float) -> int | None:
        """What a node that is free should compute; None: nothing at this moment."""
        while self._waiting:
            position = self._waiting.popleft()
            if position in self._missing:
                return position
        if not self._took:
            return None
        limit = max(_SLOW_SECONDS, _SLOW_FACTOR * statistics.median(self._took))
        alone = collections.Counter(run.position for run in self._running.values())
        late = [run for run in self._running.values() if now - run.start > limit]
        slow = [r for r in late if alone[r.position] == 1 and r.position in self._missing]
        return min(slow, key=lambda run: run.start).position if slow else None

    def put_back(self, position: int) -> None:
        """An item of `next_item` that could not be sent is next."""
        self._waiting.appendleft(position)

    def begin(self, ticket: Hashable, position: int, now: float) -> None:
        """The item is being computed."""
        self._running[ticket] = _Run(position, now)

    def finish(self, ticket: Hashable, now: float) -> int | None:
        """The item whose first result came; None: there was one already."""
        run = self._running.pop(ticket)
        if run.position not in self._missing:
            return None
        self._missing.remove(run.position)
        self._took.append(now - run.start)
        return run.position

    def lose(self, ticket: Hashable) -> None:
        """Its node is gone: the item is next, unless it has a result or another node has it."""
        run = self._running.pop(ticket, None)
        if run is not None and self._is_left(run.position):
            self._waiting.appendleft(run.position)

    def fail(self, ticket: Hashable) -> bool:
        """It raised an error; whether it will be tried again."""
        run = self._running.pop(ticket)
        self._failures[run.position] += 1
        if run.position not in self._missing:
            return True
        if self._failures[run.position] >= _ATTEMPTS:
            return False
        if self._is_left(run.position):
            self._waiting.append(run.position)
        return True

    def hung(self, now: float) -> list[Hashable]:
        """Tickets that take so long that their node must be given up."""
        limit = _FIRST_SECONDS
        if self._took:
            limit = max(_HUNG_SECONDS, _HUNG_FACTOR * statistics.median(self._took))
        return [ticket for ticket, run in self._running.items() if now - run.start > limit]

    def _is_left(self, position: int) -> bool:
        others = any(run.position == position for run in self._running.values())
        return position in self._missing and not others
