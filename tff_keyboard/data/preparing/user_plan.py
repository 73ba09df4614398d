"""Assigns each user to a population, and chooses the messages of the resulting client."""

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.preparing import grouping
from tff_keyboard.data.sources import messages, split
from tff_keyboard.storage import errors

SENTENCE_ENDS = frozenset({".", "!", "?", "...", "…", ";"})


class Client(NamedTuple):
    """A user in a population."""

    user: str
    population: str
    messages: list[str]  # tokens of each message, or of each piece with "split", joined by spaces
    capitals: list[str]  # one line per typed message: `text.capitals`


class UserPlan:
    """The clients of grouped users. Every iteration gives the same clients.

    Attributes:
      dropped: Reason -> number of messages and users left out by the last full iteration.
    """

    def __init__(self, config: DataConfig, groups: grouping.Grouping):
        self._config = config
        self._groups = groups
        self.dropped: collections.Counter[str] = collections.Counter()

    def clients(self) -> Iterator[Client]:
        """Yields clients in the order of user names. A user may be in train and train_later."""
        config = self._config
        self.dropped.clear()
        selection = None
        if config.max_users and config.source != "text":
            names = self._groups.user_names()
            selection = set(split.choose_users(names, config.max_users, seed=config.seed))
        for user in self._groups.users():
            if selection is not None and user.user not in selection:
                self.dropped["users_over_max_users"] += 1
                continue
            if not user.messages:
                self.dropped["users_without_usable_text"] += 1
                continue
            message_ids = self._without_duplicates(user.messages)
            if len(message_ids) < config.min_messages_per_user:
                self.dropped["users_under_min_messages"] += 1
                self.dropped["messages_of_users_under_min_messages"] += len(message_ids)
                continue
            population = user.population or self._population(user.user, config.seed)
            if population != messages.TRAIN:
                yield self._client(user, population, message_ids)
                continue
            later = set(user.later)
            sooner = [index for index in message_ids if index not in later]
            last = [index for index in message_ids if index in later]
            num_later = int(len(sooner) * config.later_fraction)
            if num_later:
                sooner, last = sooner[:-num_later], sooner[-num_later:]
            if sooner:
                yield self._client(user, messages.TRAIN, sooner)
            if last:
                yield self._client(user, messages.TRAIN_LATER, last)

    def _without_duplicates(self, user_messages: list[str]) -> Sequence[int]:
        """Returns the positions of the messages without long repetitions of earlier ones."""
        min_words = self._config.dedup_min_words
        is_unique = len(set(user_messages)) == len(user_messages)
        if is_unique or not min_words or self._config.source == "text":
            return range(len(user_messages))
        earlier_messages: set[str] = set()
        message_ids = []
        for index, message in enumerate(user_messages):
            if message.count(" ") + 1 >= min_words:
                if message in earlier_messages:
                    self.dropped["duplicate_messages"] += 1
                    continue
                earlier_messages.add(message)
            message_ids.append(index)
        return message_ids

    def _client(
        self, user: grouping.UserMessages, population: str, message_ids: Sequence[int]
    ) -> Client:
        """Returns the client with these messages of a user. May split long ones."""
        user_messages = [user.messages[index] for index in message_ids]
        capitals = [user.capitals[index] for index in message_ids]
        if self._config.long_messages == "split":
            max_words = self._config.max_length - 1
            pieces = (split_message(tokens.split(" "), max_words) for tokens in user_messages)
            user_messages = list(map(" ".join, itertools.chain.from_iterable(pieces)))
        return Client(user.user, population, user_messages, capitals)

    def _population(self, user: str, seed: int) -> str:
        return split.population_of(
            user,
            seed=seed,
            validation_fraction=self._config.validation_fraction,
            held_out_fraction=self._config.held_out_fraction,
        )

    def check_populations(self, sizes: collections.Counter[str]) -> None:
        """Raises `DataError` unless train, validation and held-out all have a client.

        The error names a seed that works, if there is one nearby.
        """
        populations = (messages.TRAIN, messages.VALIDATION, messages.HELD_OUT)
        empty = [name for name in populations if not sizes[name]]
        if not empty:
            return
        users = sum(sizes.values()) - sizes[messages.TRAIN_LATER]
        if users < 3:
            raise errors.DataError(
                "At least 3 users with usable messages are required, one each to train, to "
                f"validate and to be held out; there are {users}. Pass the messages of more users, "
                "such as several chats, or split one user into several (by chat or by month)."
            )
        message = f"None of the {users} usable users is in {' and '.join(empty)}."
        seed = self._working_seed()
        fills_all = f"Set `data.seed` = {seed}, which puts users into all three populations"
        raise errors.DataError(
            f"{message} {'Provide more users' if seed is None else fills_all}, or raise "
            "`data.validation_fraction` and `data.held_out_fraction`."
        )

    def _working_seed(self) -> int | None:
        """Returns the next larger seed without an empty population, if there is one nearby."""
        if self._config.max_users:  # the seed also determines the chosen users
            return None
        users = sorted({client.user for client in itertools.islice(self.clients(), 10_000)})
        for seed in range(self._config.seed + 1, self._config.seed + 1000):
            if len({self._population(user, seed) for user in users}) == 3:
                return seed
        return None


def split_message(tokens: Sequence[str], max_words: int) -> list[list[str]]:
    """Returns consecutive pieces of at most `max_words` >= 1 tokens, if the sentences allow it.

    A piece ends after the last sentence end that fits, or after the next one if none fits. It never
    ends inside a sentence. Text in `mode="words"` has no punctuation, so it is not split.

    >>> split_message("a b . c d e f g . h".split(), max_words=4)
    [['a', 'b', '.'], ['c', 'd', 'e', 'f', 'g', '.'], ['h']]
    """
    pieces = []
    remaining = list(tokens)
    while len(remaining) > max_words:
        ends = [
            position for position, token in enumerate(remaining, start=1) if token in SENTENCE_ENDS
        ]
        fitting = [end for end in ends if end <= max_words]
        end = max(fitting) if fitting else min(ends, default=len(remaining))
        pieces.append(remaining[:end])
        remaining = remaining[end:]
    return [*pieces, remaining] if remaining else pieces
