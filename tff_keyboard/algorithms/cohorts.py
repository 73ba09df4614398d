"""Draws the clients of a round: a pure function of (seed, round), and of the run's key if given.

The server selects more clients than it needs (over-selection), some never report (dropouts), and
the first ones that report make up the round. A selected client then waits for some rounds, as with
Gboard's participation timer (and as DP-FTRL's accounting needs). A private run salts its cohorts
with a secret key: amplification by sampling holds only against observers that do not know the drawn
clients. Sources: Bonawitz et al. 2019, https://arxiv.org/abs/1902.01046; Kairouz et al. 2021,
https://arxiv.org/abs/2103.00039.
"""

import dataclasses
import hmac
import math

import numpy as np

from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.data.store.client_sizes import text_weights

_SELECT, _DROP = 0, 1  # keep the random streams of a round apart


@dataclasses.dataclass(frozen=True)
class Cohort:
    """The clients of one round; all arrays are int64 indices in random order.

    Attributes:
      selected: All clients that the server selected.
      dropped: Those that drop out during the round.
      reporting: The first `clients_per_round` of the others, whose updates are aggregated; fewer
        only if too many dropped out.
    """

    selected: np.ndarray
    dropped: np.ndarray
    # The first `clients_per_round` of the others; fewer only if too many dropped out.
    reporting: np.ndarray


class CohortSampler:
    """Draws cohorts among the clients that are not waiting, uniformly or by weights.

    With `min_separation_rounds` = b, a client selected in round t is selected again in
    round t + b at the earliest. Which clients wait in a round follows from replaying
    the rounds before it from round 0: O(clients) each, cached, so that asking for
    rounds in order costs one draw, and asking in any order gives the same.

    Args:
      weights: [num_clients] > 0; a cohort's next client is drawn among those left in proportion to
        it (`sampling_weights`). None: uniformly.
      key: Secret salt; b"" for none. Without it neither seed nor other rounds tell a cohort.

    Attributes:
      num_selected: Clients asked in a round, in the largest.

    Raises:
      ValueError: The population is too small for the selection and the separation.
    """

    def __init__(
        self,
        config: TrainConfig,
        num_clients: int,
        weights: np.ndarray | None = None,
        key: bytes = b"",
    ):
        self._config = config
        self.num_selected = config.selected_per_round
        self._separation = config.min_separation_rounds
        needed = self.num_selected * self._separation
        if needed > num_clients:
            raise ValueError(
                f"Selecting {self.num_selected} clients a round with `min_separation_rounds` = "
                f"{self._separation} needs {needed} clients, got {num_clients}. Lower "
                "`clients_per_round`, `over_selection` or `min_separation_rounds`."
            )
        self._num_clients = num_clients
        self._key = key
        if weights is not None and (len(weights) != num_clients or not np.all(weights > 0)):
            raise ValueError(f"`weights` must be {num_clients} numbers > 0.")
        self._weights = weights
        self._history: list[np.ndarray] = []  # selected clients of rounds 0, 1, ...

    def cohort(self, round_num: int) -> Cohort:
        """Returns the cohort of a round. It is the same at every call, in any order of calls."""
        if round_num < 0:
            raise ValueError(f"`round_num` must be >= 0, got {round_num}.")
        selected = self._selected_clients(round_num)
        rng = self._generator(round_num, _DROP)
        drops = rng.random(len(selected)) < self._config.dropout_rate
        reporting = selected[~drops][: self._config.clients_per_round]
        return Cohort(selected=selected, dropped=selected[drops], reporting=reporting)

    def _selected_clients(self, round_num: int) -> np.ndarray:
        """Returns the selected clients of a round, after those of all rounds before it."""
        if self._separation == 1:  # no round depends on another
            return self._draw(round_num, np.arange(self._num_clients))
        for t in range(len(self._history), round_num + 1):
            self._history.append(self._draw(t, self._free(t)))
        return self._history[round_num].copy()

    def _free(self, round_num: int) -> np.ndarray:
        """Returns the clients that do not wait in a round. All earlier rounds must be known."""
        is_free = np.ones(self._num_clients, dtype=bool)
        for selected in self._history[max(round_num - self._separation + 1, 0) : round_num]:
            is_free[selected] = False
        return np.flatnonzero(is_free)

    def _draw(self, round_num: int, eligible: np.ndarray) -> np.ndarray:
        """Draws the clients of a round among `eligible`, both arrays of client indices."""
        rng = self._generator(round_num, _SELECT)
        size = self.num_selected
        if self._weights is None:
            return rng.choice(eligible, size=size, replace=False)
        weights = self._weights[eligible]
        return rng.choice(eligible, size=size, replace=False, p=weights / weights.sum())

    def _generator(self, round_num: int, purpose: int) -> np.random.Generator:
        if not self._key:
            return np.random.default_rng([self._config.seed, round_num, purpose])
        name = f"{self._config.seed} {round_num} {purpose}".encode()
        return np.random.default_rng(int.from_bytes(hmac.digest(self._key, name, "sha256"), "big"))


def sampling_weights(
    train: TrainConfig, num_messages: np.ndarray, *, max_examples: int
) -> np.ndarray | None:
    """Rounds that each client's text fills: `train.client_sampling` of `num_messages` [clients].

    [clients] >= 1, or None where all check in alike.
    """
    if train.client_sampling == "uniform":
        return None
    return text_weights(num_messages, max_examples, train.max_sampling_ratio)


def share_of_cohorts(config: TrainConfig, accounts: float) -> float:
    """Returns the largest mean share of attackers in the cohorts, for any text that they claim.

    It is the share of the selected clients. It is also the share of the reporting clients if
    attackers drop out as often as other clients.
    """
    if config.client_sampling == "uniform":
        return accounts
    max_ratio = config.max_sampling_ratio or math.inf
    return min(accounts * max_ratio, 1.0) if accounts else 0.0
