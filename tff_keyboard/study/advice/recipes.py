"""The two recipes that are advised, and what their rounds have: so many rounds for so many passes.

A person's visit is what they train on in a round. Both draw people by how much they typed
(`train.check_in`): a person of n messages comes ceil(n / most) times as often as one who brings all
of theirs at once, up to `train.check_in_factor`, each time with as many as the recipe takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.data.store.person_sizes import PersonSizes

# CPU seconds with all default protections, full-size CIFG: docs/performance.md, packs.
FIXED_SECONDS = 0.0073
TOKEN_SECONDS = 0.00017
# What a round costs besides its clients, on one core whatever there are: weights go to a worker, a
# sum comes back, the server steps. docs/performance.md, what a round costs beside its clients.
ROUND_SECONDS = 0.05


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A shipped config.

    Attributes:
      config: Its file.
      clients_per_round: People of a round.
      max_examples: Messages of a person in a round, at most.
    """

    config: str
    clients_per_round: int
    max_examples: int

    def clients(self, people: int) -> int:
        """Clients of a round: fewer where there are few people."""
        return max(1, min(self.clients_per_round, people // 4))

    def messages_of_a_visit(self, population: Mapping[str, Any]) -> float:
        """What a person brings to a round on average.

        Args:
          population: Population of a data card.
        """
        people, most = PersonSizes.of_card(population), self.max_examples
        factor = TrainConfig.check_in_factor  # the recipes take the default
        return people.mean(lambda messages: min(messages, most), most, factor)


def seconds(clients: int, rounds: int, targets: float, cores: int) -> float:
    """That a training takes when nothing else runs.

    Args:
      clients: Clients of a round.
      rounds: Rounds of the training.
      targets: Targets of a visit.
      cores: Cores of the machine.
    """
    return rounds * (ROUND_SECONDS + clients * (FIXED_SECONDS + TOKEN_SECONDS * targets) / cores)


# People drawn by how much they typed: better than any other on `ubuntu_irc` and blogs, with the
# server twin's learning curve, and on 300,000 words, from nothing as from a general model
# (docs/results.md, "Which choices matter"). On little text with more dropout.
MUCH_TEXT = Recipe("configs/reference/ubuntu_irc.toml", 16, 8)
LITTLE_TEXT = Recipe("configs/reference/messages.toml", 16, 8)
