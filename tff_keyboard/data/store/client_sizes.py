"""The number of messages per client in a data card, and the resulting sampling weights."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def text_weights(
    messages: np.ndarray, of_round: float, factor: float = 0.0, clients: np.ndarray | None = None
) -> np.ndarray:
    """Returns the number of rounds that clients' messages fill, for proportional sampling.

    Clients report the amount of their own text (`train.client_sampling`), so they could claim any
    amount. The bound limits every client to `factor` times the average over all clients, where the
    average is taken after the cut:

        c = the largest with c <= factor * mean(min(rounds_k, c));   min(rounds_k, c)

    A share s of the clients then has at most s * factor of the total weight, whatever it claims:
    its weight is at most s * c, and the mean is >= c / factor. Its share of the reports in a round
    can be larger if it drops out less often than other clients. A bound based on a mean or a
    quantile before the cut could be raised by false claims.

    Args:
      messages: [groups] >= 0, number of messages of each client in a group.
      of_round: Number of messages used in a round; infinity means that all clients check in equally
        often.
      factor: `train.max_sampling_ratio`, >= 1; 0 means no bound.
      clients: [groups] > 0, number of clients in each group; None means one each.

    Returns:
      [groups] float64 >= 1.
    """
    rounds = np.maximum(np.ceil(messages / of_round), 1)
    if not factor or not len(rounds):
        return rounds
    clients = np.ones_like(rounds) if clients is None else clients
    return np.minimum(rounds, _largest_cap(rounds, clients, factor))


def _largest_cap(rounds: np.ndarray, clients: np.ndarray, factor: float) -> float:
    """Returns the largest c <= factor * mean(min(rounds, c)), at most the maximum of `rounds`."""
    order = np.argsort(rounds)
    rounds, clients = rounds[order], clients[order]
    clients_above = clients.sum() - np.cumsum(clients)
    weight_below = np.cumsum(clients * rounds)  # weight of the clients up to this one
    mean = (
        weight_below + clients_above * rounds
    ) / clients.sum()  # mean if c is this value of `rounds`
    is_bound = rounds <= factor * mean
    is_bound[0] = True  # c = rounds[0] is the mean itself, up to rounding
    last = np.flatnonzero(is_bound)[-1]
    if last == len(rounds) - 1:
        return float(rounds[-1])
    # Between this value and the next the mean is linear in c. This solves c = factor * mean.
    return float(factor * weight_below[last] / (clients.sum() - factor * clients_above[last]))


@dataclasses.dataclass(frozen=True)
class ClientSizes:
    """The numbers of messages of a population's clients."""

    # Number of messages per client, and number of clients with about as many
    groups: tuple[tuple[float, int], ...]

    @classmethod
    def of_card(cls, population: Mapping[str, Any]) -> "ClientSizes":
        """Returns the sizes in a data card, whose histogram has power-of-two bins.

        Clients in a bin count as having the geometric mean of its ends, scaled such that the total
        is the number of messages in the card.
        """
        groups = [
            (math.sqrt(math.prod(map(int, ends.split("-")))), clients)
            for ends, clients in population["messages_per_client"]["bins"].items()
        ]
        scale = population["messages"] / max(cls(tuple(groups)).messages, 1)
        return cls(tuple((messages * scale, clients) for messages, clients in groups))

    @property
    def messages(self) -> float:
        """Total number of messages of all clients."""
        return math.fsum(messages * clients for messages, clients in self.groups)

    def mean(
        self, value: Callable[[float], float], of_round: float = math.inf, factor: float = 0.0
    ) -> float:
        """Returns the weighted mean of `value` (number of messages of a client).

        >>> clients = ClientSizes(((4, 9), (40, 1)))
        >>> clients.mean(float), clients.mean(float, 6)
        (7.6, 19.75)
        """
        if not self.groups:
            return 0.0
        messages, clients = np.array(self.groups).T
        weights = clients * text_weights(messages, of_round, factor, clients)
        return float(np.average([value(float(each)) for each in messages], weights=weights))
