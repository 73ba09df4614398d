"""The event log of a keyboard: one JSON line for each strip that was shown, without its words.

    {"v": 1, "model": "0a1b2c3d4e5f", "hour": "2026-11-21T19", "message": 3, "place": 0,
     "prefix": 0, "shown": 3, "match": 1, "outcome": "typed", "rank": null, "deleted": false,
     "latency_us": 640}

  model       first 12 digits of the SHA-256 of the model file, or of its name if a replay has no
              file
  hour        in UTC, without minutes, so that two logs cannot be matched by time
  message     number of the message in this log
  place       position of the word in its message, 0 for the first
  prefix      number of typed characters of the word when the strip was shown
  shown       number of suggestions on it
  match       position on the strip of the word that was typed in the end; null if it was not there
  outcome     "accepted", "typed" (another key), or "left" (the message was sent or dropped)
  rank        position on the strip of the accepted suggestion; null otherwise
  deleted     whether the accepted word was deleted before anything else was typed
  latency_us  time from the key to the strip

The log is as secret as the text: with the model, a reader can compute typed words from `match` and
`prefix` (docs/evaluation/event_log.md). Only its counts may leave the device.
"""

import dataclasses
import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from tff_keyboard.storage import files, json_text
from tff_keyboard.storage.errors import DataError

VERSION = 1
MAX_SHOWN = 16
LONGEST_LINE = 1000
Outcome = Literal["accepted", "typed", "left"]

_FORMS = {
    "model": (re.compile(r"[0-9a-f]{12}"), "12 hexadecimal digits"),
    "hour": (re.compile(r"\d{4}-\d\d-\d\dT\d\d"), "such as 2026-11-21T19"),
}
_LARGEST = 10**9


@dataclasses.dataclass(frozen=True, kw_only=True)
class StripRecord:
    """One strip that was shown. Its fields are described in the module docstring.

    Raises:
      ValueError: If a field breaks its rule. The message names it.
    """

    model: str
    hour: str
    message: int
    place: int
    prefix: int
    shown: int
    match: int | None
    outcome: Outcome
    rank: int | None
    deleted: bool
    latency_us: int

    def __post_init__(self) -> None:
        for name in ("message", "place", "prefix", "latency_us"):
            _require(_is_count(getattr(self, name), _LARGEST), name, "a whole number >= 0")
        _require(_is_count(self.shown, MAX_SHOWN), "shown", f"from 0 to {MAX_SHOWN}")
        for name in ("match", "rank"):
            value = getattr(self, name)
            inside = value is None or _is_count(value, self.shown - 1)
            _require(inside, name, "a position on the strip or null")
        _require(self.outcome in ("accepted", "typed", "left"), "outcome", "a known word")
        _require(isinstance(self.deleted, bool), "deleted", "true or false")
        accepted = self.outcome == "accepted"
        _require((self.rank is not None) == accepted, "rank", "present if accepted, and only then")
        _require(accepted or not self.deleted, "deleted", "false if nothing was accepted")
        for name, (form, rule) in _FORMS.items():
            value = getattr(self, name)
            _require(isinstance(value, str) and bool(form.fullmatch(value)), name, rule)

    def to_json(self) -> dict[str, object]:
        """Returns the strip as a line of the log, as a dict."""
        return {"v": VERSION, **dataclasses.asdict(self)}

    @classmethod
    def from_json(cls, content: Any) -> "StripRecord":
        """Reads the output of `to_json`.

        Raises:
          ValueError: If it has another version or other fields, or if a field breaks its rule.
        """
        if not isinstance(content, dict) or content.get("v") != VERSION:
            raise ValueError(f"`v` must be {VERSION}")
        fields = {field.name for field in dataclasses.fields(cls)}
        if set(content) != {"v", *fields}:
            raise ValueError("the fields must be exactly the fields of the schema")
        return cls(**{name: content[name] for name in fields})


def write_log(path: str | os.PathLike[str], strips: Iterable[StripRecord]) -> None:
    """Writes a whole log atomically, with mode 0600."""
    files.write_atomically(pathlib.Path(path), map(line_of, strips), mode=files.OWNER_ONLY)


def line_of(strip: StripRecord) -> bytes:
    """Returns a strip as a line of the log."""
    return json.dumps(strip.to_json()).encode() + b"\n"


def read_log(path: str | os.PathLike[str]) -> Iterator[StripRecord]:
    """Yields the strips of a log. Ignores a last line without a line feed, which a kill has cut.

    Raises:
      DataError: If the file cannot be read, or a line breaks a rule. The message names file, line
        and rule.
    """
    try:
        with pathlib.Path(path).open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
                if not line.endswith(b"\n"):
                    if len(line) == LONGEST_LINE:
                        raise DataError(f"{path}, line {number}: too long for an event.")
                    return
                yield _strip_of(line, path, number)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.") from None


def _strip_of(line: bytes, path: str | os.PathLike[str], number: int) -> StripRecord:
    try:
        return StripRecord.from_json(json_text.parse(line))
    except ValueError as error:
        rule = str(error) if type(error) is ValueError else "it is not valid JSON"
        raise DataError(f"{path}, line {number}: {rule}. Remove the line.") from None


def _is_count(value: Any, max_value: int) -> bool:
    return type(value) is int and 0 <= value <= max_value


def _require(condition: bool, name: str, rule: str) -> None:
    if not condition:
        raise ValueError(f"`{name}` must be {rule}")
