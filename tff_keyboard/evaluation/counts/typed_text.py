"""What people typed, as normalised words: the form in which any model can be evaluated on it.

Words, not ids: models with different vocabularies are then compared on the same text, and a word
that one of them does not know still has its length in characters.
"""

import dataclasses
import gzip
import itertools
import os
import pathlib
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tff_keyboard.storage.errors import DataError

if TYPE_CHECKING:
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.vocabulary import NormalisationRules

Message = list[str]
Tokenize = Callable[[Sequence[str]], list[list[str]]]


@dataclasses.dataclass(frozen=True)
class TypedText:
    """Messages by person."""

    name: str
    people: tuple[str, ...]
    # One list per person, in the order typed; each message is a list of words
    messages: tuple[list[Message], ...]
    # Whether the people are blocks of one text, so that intervals speak about blocks
    pseudo_users: bool = False
    # What each of them had typed before, oldest first; empty for nothing of anybody. A model that
    # learns has learnt it, and it is not evaluated.
    before: tuple[list[Message], ...] = ()

    @property
    def num_words(self) -> int:
        """Words typed, by all."""
        return sum(len(message) for person in self.messages for message in person)


def of_population(
    store: "ClientStore", population: str, *, rules: "NormalisationRules | None" = None
) -> TypedText:
    """What all people of a store's population typed.

    Raises `DataError` if nobody is in it, or it was cut into words by other than these `rules`.
    """
    if rules is not None:
        check_rules(store, rules)
    people = store.client_ids(population)
    if not people:
        raise DataError(f"{store.directory} has no clients in the population '{population}'.")
    messages = tuple(store.words(population, person) for person in people)
    return TypedText(population, tuple(people), messages)


def check_rules(store: "ClientStore", rules: "NormalisationRules") -> None:
    """Raises `DataError` where a store was not cut into words by these rules."""
    if store.vocabulary.rules != rules:
        raise DataError(
            f"{store.directory} was cut into words by other rules than the model's. Prepare it "
            "with that model's `data.mode`, `data.lowercase` and `data.language`."
        )


def some_people(text: TypedText, which: slice) -> TypedText:
    """A run of the people of a text."""
    return dataclasses.replace(
        text, people=text.people[which], messages=text.messages[which], before=text.before[which]
    )


def first_messages(text: TypedText, most: int) -> TypedText:
    """At most so many messages of each person, the first ones; all with 0."""
    if not most:
        return text
    return dataclasses.replace(text, messages=tuple(each[:most] for each in text.messages))


def first_words(text: TypedText, most: int) -> TypedText:
    """The first messages of each person, as many as have `most` words together, one at least."""

    def until(messages: list[Message]) -> list[Message]:
        totals = itertools.accumulate(map(len, messages))
        return messages[: max(1, sum(total <= most for total in totals))]

    return dataclasses.replace(text, messages=tuple(map(until, text.messages)))


def first_people(text: TypedText, *, max_words: int) -> TypedText:
    """As many people from the start as type about `max_words` words together, one at least."""
    words = itertools.accumulate(sum(map(len, person)) for person in text.messages)
    count = 1 + sum(total < max_words for total in words)
    return some_people(text, slice(count))


def from_text_file(path: str | os.PathLike[str], tokenize: Tokenize, *, blocks: int) -> TypedText:
    """A text file, plain or .gz, one message a line, dealt out to pseudo-users in blocks of lines.

    The file says nothing about who typed what, yet an interval needs independent parts: its lines
    are cut into `blocks` >= 2 runs of equal length (neighbours stay together, as they depend on
    each other most), and each counts as a person. Lines without a word are left out. Raises
    `DataError` if the file cannot be read, is not UTF-8, or holds fewer than two messages;
    `ValueError` if `blocks` is out of range.
    """
    if blocks < 2:
        raise ValueError(f"`blocks` must be >= 2, got {blocks}: an interval needs two at least.")
    path = pathlib.Path(path)
    lines = _read_lines(path)
    messages = [words for words in tokenize(lines) if words]
    if len(messages) < 2:
        raise DataError(f"{path}: holds {len(messages)} messages; at least 2 lines with words.")
    count = min(blocks, len(messages))
    bounds = [len(messages) * block // count for block in range(count + 1)]
    return TypedText(
        name=path.name,
        people=tuple(f"lines {a + 1}-{b}" for a, b in itertools.pairwise(bounds)),
        messages=tuple(messages[a:b] for a, b in itertools.pairwise(bounds)),
        pseudo_users=True,
    )


def _read_lines(path: pathlib.Path) -> list[str]:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a whole gzip file"
        raise DataError(f"{path}: cannot be read ({reason}).") from None
    lines = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            lines.append(line.decode("utf-8"))
        except UnicodeDecodeError:
            raise DataError(f"{path}:{number}: is not UTF-8. Convert the file first.") from None
    return lines
