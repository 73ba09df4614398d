"""The users of a fleet, and the shares of their participations that fail in each way."""

import collections
import dataclasses
import pathlib
import random
import subprocess
import time

from tff_keyboard_fleet.device.cache import ClientCache, Example


@dataclasses.dataclass
class Person:
    """A device, the text that its user will type, and the process that runs on it."""

    name: str
    directory: pathlib.Path
    texts: list[str]
    fate: str = ""  # of the current attempt: "", "killed", "late"
    began: float = 0.0
    process: subprocess.Popen | None = None
    kill_at: float = 0.0
    round: int = 0
    stopped: bool = False
    not_before: float = 0.0
    has_seat: bool = False  # but no process, because it was killed or the server was away

    def type_on(self, count: int) -> None:
        """Adds the next messages to the cache.

        After the last message, it starts again with the first.
        """
        now, self.texts = self.texts[:count], self.texts[count:] + self.texts[:count]
        self.directory.mkdir(parents=True, exist_ok=True)
        cache = ClientCache(self.directory / "cache.db")
        if len(cache) < count:
            examples = [Example(text=text) for text in now]
            cache.add(examples, now=time.time(), max_per_category=1000)
        cache.close()


class Shares:
    """Counts participations of each kind, and chooses the kind of the next one.

    Attributes:
      targets: Kind -> share of participations to reach.
      counts: Kind -> participations; "all" counts every kind.
    """

    def __init__(self, targets: dict[str, float]):
        self.targets, self.counts = targets, collections.Counter({"all": 0})
        self._under_way: collections.Counter[str] = collections.Counter()
        self._seconds = [3.0]  # durations of attempts

    def is_due(self, kind: str) -> bool:
        """Returns whether the next participation must be of this kind."""
        count = self.counts[kind] + self._under_way[kind]
        return count < self.targets[kind] * (self.counts["all"] + 1)

    def begin(self, person: Person, rng: random.Random) -> None:
        """Begins an attempt, without a seat."""
        if self.is_due("killed"):
            person.fate = "killed"
            self._under_way["killed"] += 1
            person.kill_at = time.monotonic() + rng.uniform(0.0, max(self._seconds))

    def seated(self, person: Person) -> None:
        """Notes that an attempt got a seat."""
        self.counts["all"] += 1
        if not person.fate and self.is_due("late"):
            person.fate = "late"
            self._under_way["late"] += 1

    def ended(self, person: Person, *, happened: bool) -> None:
        """Notes that the process of an attempt ended, and whether its fate happened."""
        if person.fate:
            self._under_way[person.fate] -= 1
            self.counts[person.fate] += happened
            self.counts["all"] += happened and not person.round
        elif person.round:
            self._seconds = [*self._seconds[-9:], time.monotonic() - person.began]

    def attacked(self) -> None:
        """Counts an attack."""
        self.counts.update(("all", "hostile"))

    def measured(self) -> dict[str, float]:
        """Returns the shares of all participations."""
        return {kind: round(self.counts[kind] / self.counts["all"], 4) for kind in self.targets}
