"""The people of a fleet, and how many of their participations go wrong in which way."""

import collections
import dataclasses
import pathlib
import random
import subprocess
import time

from tflite_export.device.cache import ClientCache, Example


@dataclasses.dataclass
class Person:
    """A device, what its person has yet to type, and the process that runs on it."""

    name: str
    directory: pathlib.Path
    texts: list[str]
    fate: str = ""  # of the attempt under way: "", "killed", "late"
    began: float = 0.0
    process: subprocess.Popen | None = None
    kill_at: float = 0.0
    round: int = 0
    stopped: bool = False
    not_before: float = 0.0
    has_seat: bool = False  # and no process: it was killed, or the server was away

    def type_on(self, count: int) -> None:
        """Puts the next messages into the cache; who has typed all types it again."""
        now, self.texts = self.texts[:count], self.texts[count:] + self.texts[:count]
        self.directory.mkdir(parents=True, exist_ok=True)
        cache = ClientCache(self.directory / "cache.db")
        if len(cache) < count:
            examples = [Example(text=text) for text in now]
            cache.add(examples, now=time.time(), most_per_category=1000)
        cache.close()


class Shares:
    """How much of what was asked for came to be, and so what is to become of the next one.

    Attributes:
      counts: Kind -> participations; those of "all" are of every kind.
    """

    def __init__(self, asked: dict[str, float]):
        self.asked, self.counts = asked, collections.Counter({"all": 0})
        self._under_way: collections.Counter[str] = collections.Counter()
        self._seconds = [3.0]  # that attempts took

    def is_due(self, kind: str) -> bool:
        """Whether the next participation is to be of this kind."""
        found = self.counts[kind] + self._under_way[kind]
        return found < self.asked[kind] * (self.counts["all"] + 1)

    def begin(self, person: Person, rng: random.Random) -> None:
        """An attempt begins, without a seat."""
        if self.is_due("killed"):
            person.fate = "killed"
            self._under_way["killed"] += 1
            person.kill_at = time.monotonic() + rng.uniform(0.0, max(self._seconds))

    def seated(self, person: Person) -> None:
        """It got a seat."""
        self.counts["all"] += 1
        if not person.fate and self.is_due("late"):
            person.fate = "late"
            self._under_way["late"] += 1

    def ended(self, person: Person, *, happened: bool) -> None:
        """Its process is over; whether its fate came to be."""
        if person.fate:
            self._under_way[person.fate] -= 1
            self.counts[person.fate] += happened
            self.counts["all"] += happened and not person.round
        elif person.round:
            self._seconds = [*self._seconds[-9:], time.monotonic() - person.began]

    def attacked(self) -> None:
        """One who means harm took part."""
        self.counts.update(("all", "hostile"))

    def found(self) -> dict[str, float]:
        """Shares of all participations."""
        return {kind: round(self.counts[kind] / self.counts["all"], 4) for kind in self.asked}
