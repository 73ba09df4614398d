"""The phrase book of the synthetic typists, `synthetic_phrases.toml`."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence

from tff_keyboard.storage.toml import tomllib


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhraseBook:
    """What typists choose from.

    Attributes:
      topics: Templates of each topic, with `{slot}` and, there half of the time, `[...]`.
      slots: What may stand in a slot.
      shorthand: Habits of spelling, in groups of which a typist has one or another: what is said,
        and how some people type it.
      greetings, closings, fillers, laughs, emoji, replies, names: Phrases.
    """

    topics: Mapping[str, Sequence[str]]
    slots: Mapping[str, Sequence[str]]
    shorthand: Sequence[Sequence[tuple[str, str]]]
    greetings: Sequence[str]
    closings: Sequence[str]
    fillers: Sequence[str]
    laughs: Sequence[str]
    emoji: Sequence[str]
    replies: Sequence[str]
    names: Sequence[str]


@functools.cache
def phrase_book() -> PhraseBook:
    """The book, read once."""
    text = pathlib.Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    found["topics"] = {topic: lines.splitlines() for topic, lines in found["topics"].items()}
    found["replies"] = found["replies"].splitlines()
    return PhraseBook(**found)
