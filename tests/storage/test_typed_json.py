"""Dataclasses to JSON and back: equal, and one line of error for any other input."""

import dataclasses
import json

import pytest

from tff_keyboard.storage import typed_json


@dataclasses.dataclass(frozen=True)
class Part:
    size: int
    note: str | None
    digest: str | None = None


@dataclasses.dataclass(frozen=True)
class Whole:
    parts: list[Part]
    shares: dict[str, float]
    pair: tuple[float, float]
    last: Part | None
    is_done: bool


WHOLE = Whole([Part(1, None), Part(2, "é", "0f")], {"a": 1, "b": 0.5}, (0.5, 2.0), None, True)
PLAIN = {
    "parts": [{"size": 1, "note": None}, {"size": 2, "note": "é", "digest": "0f"}],
    "shares": {"a": 1, "b": 0.5},
    "pair": [0.5, 2.0],
    "last": None,
    "is_done": True,
}


def test_round_trip():
    text = json.dumps(typed_json.plain(WHOLE))
    assert text == json.dumps(PLAIN)  # in the order of the fields
    assert typed_json.read(Whole, json.loads(text), "whole") == WHOLE


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("parts", {}, "`whole.parts` must be a list"),
        ("parts", [3], "`whole.parts` must be an object"),
        ("parts", [{"size": True, "note": None}], "`whole.parts.size` must be a whole number"),
        ("parts", [{"size": 1.0, "note": None}], "`whole.parts.size` must be a whole number"),
        ("parts", [{"size": 1}], "`whole.parts.note` is missing"),
        ("parts", [{"size": 1, "note": None, "x": 2}], "`whole.parts` has an unknown key"),
        ("shares", {"a": False}, "`whole.shares` must be a number"),
        ("pair", [1.0], "`whole.pair` must be a list of 2"),
        ("last", "", "`whole.last` must be an object"),
        ("is_done", 1, "`whole.is_done` must be true or false"),
        ("parts", [{"size": 2**63, "note": None}], "`whole.parts.size` must be of 64 bits"),
        ("shares", {"a": -(10**400)}, "`whole.shares` must be of 64 bits"),
        ("parts", [{"size": 1, "note": "\ud800"}], "`whole.parts.note` must be Unicode"),
    ],
)
def test_wrong_type_is_one_line(key, value, says):
    with pytest.raises(ValueError, match="^" + says):
        typed_json.read(Whole, PLAIN | {key: value}, "whole")
