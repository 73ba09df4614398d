"""Clients' text as normalised words, on which any model can be evaluated.

It contains words instead of ids, so models with different vocabularies can be compared on the same
text, and a word that a model does not know still has a length in characters.
"""

import dataclasses
import itertools
from typing import TYPE_CHECKING

from tff_keyboard.storage.errors import DataError

if TYPE_CHECKING:
    from tff_keyboard.data.store.client_store import ClientStore
    from tff_keyboard.data.vocabulary import NormalisationRules

Message = list[str]


@dataclasses.dataclass(frozen=True)
class TypedText:
    """Messages by client."""

    name: str
    clients: tuple[str, ...]
    # One list per client, in the order typed; each message is a list of words
    messages: tuple[list[Message], ...]
    # Whether the clients are blocks of one text, so that intervals are over blocks
    pseudo_users: bool = False
    # Earlier messages of each client, oldest first; empty if there are none at all. A model that
    # learns learns them first, and they are not evaluated.
    before: tuple[list[Message], ...] = ()

    @property
    def num_words(self) -> int:
        """Total number of typed words."""
        return sum(len(message) for client in self.messages for message in client)


def of_population(
    store: "ClientStore", population: str, *, rules: "NormalisationRules | None" = None
) -> TypedText:
    """Returns the text of all clients of a store's population.

    Raises `DataError` if the population is empty, or the store has other normalisation rules than
    `rules`.
    """
    if rules is not None:
        check_rules(store, rules)
    clients = store.client_ids(population)
    if not clients:
        raise DataError(f"{store.directory} has no clients in the population '{population}'.")
    messages = tuple(store.words(population, client) for client in clients)
    return TypedText(population, tuple(clients), messages)


def check_rules(store: "ClientStore", rules: "NormalisationRules") -> None:
    """Raises `DataError` unless a store has these normalisation rules."""
    if store.vocabulary.rules != rules:
        raise DataError(
            f"{store.directory} has different tokenisation rules than the model. Prepare it "
            "with the model's `data.mode`, `data.lowercase` and `data.language`."
        )


def some_clients(text: TypedText, which: slice) -> TypedText:
    """Returns a text with some of the clients."""
    return dataclasses.replace(
        text, clients=text.clients[which], messages=text.messages[which], before=text.before[which]
    )


def first_messages(text: TypedText, max_messages: int) -> TypedText:
    """Returns the text with the first messages of each client; all if `max_messages` is 0."""
    if not max_messages:
        return text
    return dataclasses.replace(text, messages=tuple(each[:max_messages] for each in text.messages))


def first_words(text: TypedText, max_words: int) -> TypedText:
    """Returns the text with each client's first messages, up to `max_words` words, at least one."""

    def until(messages: list[Message]) -> list[Message]:
        totals = itertools.accumulate(map(len, messages))
        return messages[: max(1, sum(total <= max_words for total in totals))]

    return dataclasses.replace(text, messages=tuple(map(until, text.messages)))


def first_clients(text: TypedText, *, max_words: int) -> TypedText:
    """Returns the first clients with about `max_words` words in total, at least one client."""
    words = itertools.accumulate(sum(map(len, client)) for client in text.messages)
    count = 1 + sum(total < max_words for total in words)
    return some_clients(text, slice(count))
