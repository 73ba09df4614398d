"""Generates chat messages of synthetic users, so that training works without any data.

Every synthetic user has favourite topics, friends, places and foods, individual greetings and
closings, shorthand, a preference for emoji or capitals, and a usual message length. Clients
therefore differ from each other (non-IID) but share one grammar, like real users. The text comes
only from `synthetic_phrases.toml`.
"""

import dataclasses
import functools
import math
import pathlib
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from tff_keyboard.data.sources.messages import Message
from tff_keyboard.storage import toml

_SLOT = re.compile(r"\{(\w+)\}")
_OPTION = re.compile(r"\[([^\]]*)\]")
_LONGEST_MESSAGE_CLAUSES = 5
# Mean probability, over synthetic users, that a message contains each part.
_MEAN_RATES = {
    "greeting": 0.15, "closing": 0.15, "filler": 0.12, "laugh": 0.12, "emoji": 0.12, "reply": 0.2,
    "friend": 0.08, "another_clause": 0.3,
}  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class PhraseBook:
    """The phrases that synthetic users choose from."""

    topics: Mapping[str, Sequence[str]]  # templates: `{slot}`; `[...]` half of the time
    slots: Mapping[str, Sequence[str]]  # slot -> its possible values
    shorthand: Sequence[Sequence[tuple[str, str]]]  # groups of (phrase, its shorthand)
    greetings: Sequence[str]
    closings: Sequence[str]
    fillers: Sequence[str]
    laughs: Sequence[str]
    emoji: Sequence[str]
    replies: Sequence[str]
    names: Sequence[str]


@functools.cache
def phrase_book() -> PhraseBook:
    """Returns the phrases of `synthetic_phrases.toml`, read once."""
    path = pathlib.Path(__file__).with_name("synthetic_phrases.toml")
    tables = toml.parse(path.read_text(encoding="utf-8"))
    tables["topics"] = {topic: lines.splitlines() for topic, lines in tables["topics"].items()}
    tables["replies"] = tables["replies"].splitlines()
    return PhraseBook(**tables)


def generate_messages(
    num_typists: int,
    mean_messages: int,
    *,
    seed: int,
    on_typist: Callable[[int], None] = lambda typist: None,
) -> Iterator[Message]:
    """Yields the messages of all synthetic users, user by user, in the order typed.

    The messages of a user depend only on `seed` >= 0 and the user's number, so more users do not
    change the first ones. The message counts are skewed like those of real users: most have fewer
    than `mean_messages`, and a few have several times as many. `on_typist` is called with the
    number of finished users.
    """
    for index in range(num_typists):
        typist = Typist(random.Random(f"typist {index} of seed {seed}"))
        count = max(1, round(mean_messages * typist.activity))
        for _ in range(count):
            yield Message(f"typist_{index:05d}", typist.message())
        on_typist(index + 1)


class Typist:
    """One synthetic user, with habits that are drawn once."""

    def __init__(self, rng: random.Random):
        self._rng = rng
        phrases = phrase_book()
        # Log-normal with mean 1.
        self.activity = min(math.exp(rng.gauss(-0.18, 0.6)), 6.0)
        self._topics = _favourites(rng, list(phrases.topics), concentration=0.35)
        self._templates = {
            topic: _favourites(rng, templates, concentration=0.8)
            for topic, templates in phrases.topics.items()
        }
        self._slots = {
            slot: _favourites(rng, values, concentration=0.4)
            for slot, values in phrases.slots.items()
        }
        friends = rng.sample(phrases.names, rng.randint(2, 6))
        self._slots["friend"] = _favourites(rng, friends, concentration=1.0)
        self._greetings = _favourites(rng, phrases.greetings, concentration=0.15)
        self._closings = _favourites(rng, phrases.closings, concentration=0.15)
        self._fillers = _favourites(rng, phrases.fillers, concentration=0.2)
        self._laughs = _favourites(rng, phrases.laughs, concentration=0.15)
        self._emoji = _favourites(rng, phrases.emoji, concentration=0.3)
        self._replies = _favourites(rng, phrases.replies, concentration=0.4)
        groups = rng.sample(phrases.shorthand, rng.choice([0, 1, 2, 3, 4, 6]))
        said = [pair for group in groups for pair in group]
        self._shorthand = [(re.compile(rf"\b{re.escape(s)}\b"), typed) for s, typed in said]
        self._shorthand_rate = rng.uniform(0.7, 1.0)
        self._rates = {
            name: rng.betavariate(1.0, 1.0 / mean - 1.0) for name, mean in _MEAN_RATES.items()
        }
        self._has_capitals = rng.random() < 0.5
        self._end = rng.choice(["", "", ".", "!", "..."])

    def message(self) -> str:
        """Returns the next message of this user."""
        parts = []
        if self._does("greeting"):
            parts.append(_draw(self._rng, self._greetings))
            if self._does("friend"):
                parts.append(_draw(self._rng, self._slots["friend"]))
        if self._does("reply"):
            parts.append(_draw(self._rng, self._replies))
        else:
            parts.append(self._clauses())
        if self._does("laugh"):
            parts.insert(self._rng.choice([0, len(parts)]), _draw(self._rng, self._laughs))
        if self._does("closing"):
            parts.append(_draw(self._rng, self._closings))
        text = self._type(" ".join(parts))
        if self._does("emoji"):
            text += " " + _draw(self._rng, self._emoji) * self._rng.choice([1, 1, 1, 2, 3])
        return text

    def _clauses(self) -> str:
        """Returns one or more different clauses on one topic."""
        topic = _draw(self._rng, self._topics)
        used: list[str] = []
        text = _draw(self._rng, self._fillers) if self._does("filler") else ""
        while len(used) < _LONGEST_MESSAGE_CLAUSES:
            template = _draw(self._rng, self._templates[topic])
            if template in used:
                break
            if used:
                text += " " + self._rng.choice(["and", "but", "so", "", ""])
            text += " " + self._clause(template)
            used.append(template)
            if not self._does("another_clause"):
                break
        return text

    def _clause(self, template: str) -> str:
        template = _OPTION.sub(
            lambda match: match.group(1) if self._rng.random() < 0.5 else "", template
        )
        return _SLOT.sub(lambda match: _draw(self._rng, self._slots[match.group(1)]), template)

    def _type(self, said: str) -> str:
        """Applies the shorthand, capitals and ending of this user to a text."""
        text = " ".join(said.split())
        for pattern, typed in self._shorthand:
            if self._rng.random() < self._shorthand_rate:
                text = pattern.sub(typed, text)
        if self._has_capitals:
            text = re.sub(r"\bi\b", "I", text[:1].upper() + text[1:])
        return text + self._end

    def _does(self, habit: str) -> bool:
        return self._rng.random() < self._rates[habit]


def _favourites(
    rng: random.Random, values: Sequence[str], *, concentration: float
) -> tuple[list[str], list[float]]:
    """Returns values with Dirichlet weights, cumulated for `random.choices`.

    A small `concentration` gives few favourites.
    """
    total, cumulative = 0.0, []
    for _ in values:
        total += rng.gammavariate(concentration, 1.0) + 1e-3
        cumulative.append(total)
    return list(values), cumulative


def _draw(rng: random.Random, favourites: tuple[list[str], list[float]]) -> str:
    values, cumulative = favourites
    return rng.choices(values, cum_weights=cumulative)[0]
