"""How many messages people have, as a data card knows it: what a person brings to a round."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def check_ins(
    messages: np.ndarray, of_round: float, factor: float = 0.0, people: np.ndarray | None = None
) -> np.ndarray:
    """Rounds that the messages of people fill who check in by text (`train.check_in`).

    Whoever says how much they typed would have as many as they like. So nobody has more than
    `factor` times the average of all, which is taken after the cut:

        c = the largest with c <= factor * mean(min(rounds_k, c));   min(rounds_k, c)

    A share s of the people then has at most s * factor of all check-ins, whatever they claim:
    theirs are s * c, of a mean >= c / factor. They have more than that of a round's reports where
    they drop out less than others do. A bound that looked at a mean or a quantile before the cut
    would be theirs to raise.

    `messages` >= 0 are [groups] those of each person, `people` > 0 [groups] how many have about so
    many; one each if None. A round takes `of_round` of them; with infinity all check in alike.
    `factor` is `train.check_in_factor`, >= 1; 0 is no bound. The result is [groups] float64 >= 1.
    """
    rounds = np.maximum(np.ceil(messages / of_round), 1)
    if not factor or not len(rounds):
        return rounds
    people = np.ones_like(rounds) if people is None else people
    return np.minimum(rounds, _most(rounds, people, factor))


def _most(rounds: np.ndarray, people: np.ndarray, factor: float) -> float:
    """The largest c <= factor * mean(min(rounds, c)), no further than the largest of `rounds`."""
    order = np.argsort(rounds)
    rounds, people = rounds[order], people[order]
    above = people.sum() - np.cumsum(people)
    below = np.cumsum(people * rounds)  # check-ins of those who are not above
    mean = (below + above * rounds) / people.sum()  # if each were the bound
    is_bound = rounds <= factor * mean
    is_bound[0] = True  # all have as many as the least; rounding may say otherwise
    last = np.flatnonzero(is_bound)[-1]
    if last == len(rounds) - 1:
        return float(rounds[-1])
    # Between this one and the next the mean grows along a line, which is cut here.
    return float(factor * below[last] / (people.sum() - factor * above[last]))


@dataclasses.dataclass(frozen=True)
class PersonSizes:
    """Sizes of a population's people."""

    # Messages of a person, and how many people have about so many
    groups: tuple[tuple[float, int], ...]

    @classmethod
    def of_card(cls, population: Mapping[str, Any]) -> "PersonSizes":
        """Sizes of a data card, whose histogram has bins of powers of two.

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
        """Messages of all people together."""
        return math.fsum(messages * people for messages, people in self.groups)

    def mean(
        self, value: Callable[[float], float], of_round: float = math.inf, factor: float = 0.0
    ) -> float:
        """Mean of what `value` makes of a person's number of messages, over those who check in.

        >>> people = PersonSizes(((4, 9), (40, 1)))
        >>> people.mean(float), people.mean(float, 6)
        (7.6, 19.75)
        """
        if not self.groups:
            return 0.0
        messages, people = np.array(self.groups).T
        visits = people * check_ins(messages, of_round, factor, people)
        return float(np.average([value(float(each)) for each in messages], weights=visits))
