"""How many messages people have, as a data card knows it: what a person brings to a round."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def check_ins(messages: np.ndarray, of_round: float) -> np.ndarray:
    """Of people who check in by text (`train.check_in`), the rounds that their messages fill.

    Args:
      messages: Of each, >= 0.
      of_round: That one round takes of a person; with infinity all check in alike.

    Returns:
      Float64 >= 1, of the shape of `messages`.
    """
    return np.maximum(np.ceil(messages / of_round), 1)


@dataclasses.dataclass(frozen=True)
class PersonSizes:
    """Of a population.

    Attributes:
      groups: Messages of a person, and how many people have about so many.
    """

    groups: tuple[tuple[float, int], ...]

    @classmethod
    def of_card(cls, population: Mapping[str, Any]) -> "PersonSizes":
        """Of a data card, whose histogram has bins of powers of two.

        Within one, people are taken to have the geometric mean of its ends, times what lets all
        together have as many messages as the card says.
        """
        groups = [
            (math.sqrt(math.prod(map(int, ends.split("-")))), people)
            for ends, people in population["messages_per_client"]["bins"].items()
        ]
        scale = population["messages"] / max(cls(tuple(groups)).messages, 1)
        return cls(tuple((messages * scale, people) for messages, people in groups))

    @property
    def messages(self) -> float:
        """Of all people together."""
        return math.fsum(messages * people for messages, people in self.groups)

    def mean(self, value: Callable[[float], float], of_round: float = math.inf) -> float:
        """Of what `value` makes of a person's number of messages, over those who check in.

        >>> people = PersonSizes(((4, 9), (40, 1)))
        >>> people.mean(float), people.mean(float, 6)
        (7.6, 19.75)

        Args:
          value: Of a number of messages.
          of_round: See `check_ins`.
        """
        if not self.groups:
            return 0.0
        messages, people = np.array(self.groups).T
        visits = people * check_ins(messages, of_round)
        return float(np.average([value(float(each)) for each in messages], weights=visits))
