"""The event log of a keyboard: sums of counts over messages, in one small JSON object.

    {"v": 2, "models": {"0a1b2c3d4e5f": {"first_day": "2026-11-21", "last_day": "2026-11-28",
     "messages": 41, "counts": {"strips": 1310, "suggestions": 3904, "accepted": 402, ...}}}}

  model      first 12 digits of the SHA-256 of the model file
  first_day  first and last day, in UTC, on which counts were added
  last_day
  messages   number of messages that were sent or dropped, with a word and a strip
  counts     sums over these messages, named as in `event_counts.COUNTS`

The file has nothing about a single strip, word or message, because a reader with the model could
compute typed words from that. For the same reason, counts are added for at least `MIN_MESSAGES`
messages at a time, so that two copies of a file never differ by fewer. Until then they are in
memory, and the end of the process loses them. docs/evaluation/event_log.md lists the facts that a
reader of the sums can still learn.
"""

import contextlib
import dataclasses
import datetime
import json
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tff_keyboard.storage import exclusive_file, files, json_text, typed_json
from tff_keyboard.storage.errors import DataError, ProgramError, UsageError
from tff_keyboard_app.events import event_counts
from tff_keyboard_app.events.event_counts import COUNTS, StripOutcome

VERSION = 2
MIN_MESSAGES = 10  # of a model whose counts are written, and of every addition

_MAX_BYTES = 2**20  # one model takes about 600 bytes
_MAX_COUNT = 10**12
_MODEL = re.compile("[0-9a-f]{12}")
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_VERSION_1 = re.compile(rb'\s*\{\s*"v"\s*:\s*1\b')  # how each line of such a log begins


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelCounts:
    """Counts of one model in a log. Its fields are described in the module docstring.

    Raises:
      ValueError: If a field breaks its rule. The message names it.
    """

    first_day: str
    last_day: str
    messages: int
    counts: dict[str, int]

    def __post_init__(self) -> None:
        for name in ("first_day", "last_day"):
            _require(bool(_DAY.fullmatch(getattr(self, name))), name, "such as 2026-11-21")
        _require(self.first_day <= self.last_day, "first_day", "before `last_day`, or the same day")
        enough = MIN_MESSAGES <= self.messages <= _MAX_COUNT
        _require(enough, "messages", f"from {MIN_MESSAGES} to 10^12")
        _require(self.counts.keys() == set(COUNTS), "counts", "the counts of this version")
        for name, value in self.counts.items():
            _require(0 <= value <= _MAX_COUNT, name, "from 0 to 10^12")
        for numerator, denominator in event_counts.FIGURES.values():
            is_share = self.counts[numerator] <= self.counts[denominator]
            _require(is_share, numerator, f"at most `{denominator}`")

    def vector(self) -> np.ndarray:
        """Returns the counts in the order of `COUNTS`: [len(COUNTS)] int64."""
        return np.array([self.counts[name] for name in COUNTS])


@dataclasses.dataclass(frozen=True, kw_only=True)
class EventLog:
    """Content of a log.

    Raises:
      ValueError: If it has another version, or a name of a model that is not one.
    """

    v: int
    models: dict[str, ModelCounts]

    def __post_init__(self) -> None:
        _require(self.v == VERSION, "v", str(VERSION))
        _require(bool(self.models), "models", "at least one model")
        _require(
            all(map(_MODEL.fullmatch, self.models)), "models", "named by 12 hexadecimal digits"
        )

    def vector(self) -> np.ndarray:
        """Returns the sums over the models, in the order of `COUNTS`: [len(COUNTS)] int64."""
        return np.sum([entry.vector() for entry in self.models.values()], axis=0)


def read(path: pathlib.Path) -> EventLog:
    """Reads a log.

    Raises:
      DataError: If the file cannot be read, is a log of version 1, or breaks a rule. The message
        names the file and the rule.
    """
    try:
        with files.open_regular(path, follow_link=True) as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.") from None
    if _VERSION_1.match(content):
        raise DataError(
            f"{path}: an older version wrote this event log, with a line for each strip. Delete "
            "it: it is as secret as the text, because typed words can be computed from its lines."
        )
    try:
        if len(content) > _MAX_BYTES:
            raise ValueError(f"it has more than {_MAX_BYTES:,} bytes")
        return typed_json.read(EventLog, json_text.parse(content), "log")
    except ValueError as error:
        raise DataError(f"{path}: not an event log: {error}. Choose another file.") from None


class LiveLog:
    """A log to which the counts of messages are added, with mode 0600. Not thread-safe."""

    def __init__(self, path: pathlib.Path, models: dict[str, ModelCounts]):
        self._path = path
        self._models = models
        # Sums in memory, by model: number of messages, counts.
        self._unwritten: dict[str, tuple[int, np.ndarray]] = {}

    @property
    def num_unwritten(self) -> int:
        """Number of messages whose counts are only in memory."""
        return sum(messages for messages, _ in self._unwritten.values())

    def add(self, model: str, strips: Iterable[StripOutcome], message: Sequence[str]) -> None:
        """Adds the counts of a message.

        Args:
          model: First 12 digits of the SHA-256 of the model file.
          strips: The strips of the message.
          message: Its normalised words. A message without a word does not count as a message, but
            its strips count.

        Raises:
          ProgramError: If the log cannot be written. It stays unchanged, and the counts stay in
            memory.
        """
        counts = event_counts.count(strips, message)
        messages, sums = self._unwritten.get(model, (0, np.zeros_like(counts)))
        messages, sums = messages + bool(message and counts.any()), sums + counts
        self._unwritten[model] = messages, sums
        if messages >= MIN_MESSAGES:
            self._write(model, messages, sums)

    def _write(self, model: str, messages: int, counts: np.ndarray) -> None:
        """Adds counts to those of a model, and writes the file. Widens its days to today."""
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        days, before = [today], self._models.get(model)
        if before is not None:
            days += [before.first_day, before.last_day]  # the clock may have been set back
            messages, counts = messages + before.messages, counts + before.vector()
        try:
            entry = ModelCounts(
                first_day=min(days),
                last_day=max(days),
                messages=messages,
                counts=dict(zip(COUNTS, counts.tolist(), strict=True)),
            )
        except ValueError as error:  # a file with made-up counts
            raise ProgramError(f"{self._path} is full: {error}. Choose another file.") from None
        log = EventLog(v=VERSION, models={**self._models, model: entry})
        content = json.dumps(typed_json.plain(log), indent=1).encode() + b"\n"
        files.write_atomically(self._path, [content], mode=files.OWNER_ONLY)
        self._models = log.models
        del self._unwritten[model]


@contextlib.contextmanager
def opened(path: pathlib.Path) -> Iterator[LiveLog]:
    """Opens a new or existing log, and locks it against other processes.

    A new file is created with the first counts.

    Raises:
      UsageError: If the log cannot be written there, or another keyboard writes it.
      DataError: If the file exists and is not a log.
    """

    def cannot_write(reason: str) -> UsageError:
        return UsageError(f"{path}: cannot write an event log ({reason}). Choose another file.")

    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise cannot_write("it is not a regular file")
    holding = exclusive_file.held(
        path.with_name(f".{path.name}.lock"),
        cannot=cannot_write,
        taken=UsageError(
            f"{path}: another keyboard is using this log. Close it, or choose another file."
        ),
    )
    with holding:
        yield LiveLog(path, read(path).models if path.exists() else {})


def _require(condition: bool, name: str, rule: str) -> None:
    if not condition:
        raise ValueError(f"`{name}` must be {rule}")
