"""Who takes part in a round: a pure function of (seed, round), and of the run's key if it has one.

The server selects more clients than it needs (over-selection), some never report (drop-outs), and
the first that do make up the round. A client that was selected waits for some rounds, as Gboard's
participation timer has it (and as DP-FTRL's accounting needs). A private run salts its cohorts with
a secret key: amplification by sampling holds against those who do not know who was drawn. Sources:
Bonawitz et al. 2019, https://arxiv.org/abs/1902.01046; Kairouz et al. 2021,
https://arxiv.org/abs/2103.00039.
"""

import dataclasses
import hmac
import math
from collections.abc import Sequence

import numpy as np

from tff_keyboard.config import RunConfig
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.data.store.person_sizes import check_ins

_SELECT, _DROP = 0, 1  # keep the random streams of a round apart


@dataclasses.dataclass(frozen=True)
class Cohort:
    """The clients of one round; all arrays are int64 indices in random order."""

    selected: np.ndarray
    dropped: np.ndarray
    # the first `clients_per_round` of the others; fewer only when too many dropped out
    reporting: np.ndarray


class CohortSampler:
    """Draws cohorts among the clients that are not waiting, uniformly or by weights.

    With `min_separation_rounds` = b, a client selected in round t is selected again in
    round t + b at the earliest. Which clients wait in a round follows from replaying
    the rounds before it from round 0: O(clients) each, cached, so that asking for
    rounds in order costs one draw, and asking in any order gives the same.

    Args:
      earlier: Who was selected in the rounds of other runs just before round 1, the oldest first;
        they wait, too. Round 0 is then the last of them.
      weights: [num_clients] > 0; a cohort's next client is drawn among those left in proportion to
        it (`check_in_weights`). None: uniformly.
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
        earlier: Sequence[np.ndarray] = (),
        weights: np.ndarray | None = None,
        key: bytes = b"",
    ):
        self._config = config
        self.num_selected = self._to_select(config.most_clients_per_round)
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
        self._earlier = list(earlier)
        if weights is not None and (len(weights) != num_clients or not np.all(weights > 0)):
            raise ValueError(f"`weights` must be {num_clients} numbers > 0.")
        self._weights = weights
        # Selected clients of rounds 0, 1, ...
        self._history: list[np.ndarray] = self._earlier[-1:]

    def cohort(self, round_num: int) -> Cohort:
        """The cohort of a round; the same at every call, in any order of calls."""
        if round_num < 0:
            raise ValueError(f"`round_num` must be >= 0, got {round_num}.")
        selected = self._selected(round_num)
        rng = self._generator(round_num, _DROP)
        drops = rng.random(len(selected)) < self._config.dropout_rate
        reporting = selected[~drops][: self._config.clients_in_round(round_num)]
        return Cohort(selected=selected, dropped=selected[drops], reporting=reporting)

    def _selected(self, round_num: int) -> np.ndarray:
        if self._separation == 1:  # no round depends on another
            return self._draw(round_num, np.arange(self._num_clients))
        for t in range(len(self._history), round_num + 1):
            self._history.append(self._draw(t, self._free(t)))
        return self._history[round_num].copy()

    def _free(self, round_num: int) -> np.ndarray:
        """Clients that are not waiting in a round whose predecessors are known."""
        before = [*self._earlier[:-1], *self._history]
        is_free = np.ones(self._num_clients, dtype=bool)
        for selected in before[max(len(before) - self._separation + 1, 0) :]:
            is_free[selected] = False
        free = np.flatnonzero(is_free)
        needed = self._to_select(self._config.clients_in_round(round_num))
        if len(free) < needed:
            raise ValueError(
                f"Round {round_num} needs {needed} clients, but {len(free)} do not wait for "
                f"`min_separation_rounds` = {self._separation} after the rounds of other runs on "
                "this store. Lower `train.clients_per_round` or the separation."
            )
        return free

    def _draw(self, round_num: int, eligible: np.ndarray) -> np.ndarray:
        rng = self._generator(round_num, _SELECT)
        size = self._to_select(self._config.clients_in_round(round_num))
        if self._weights is None:
            return rng.choice(eligible, size=size, replace=False)
        weights = self._weights[eligible]
        return rng.choice(eligible, size=size, replace=False, p=weights / weights.sum())

    def _generator(self, round_num: int, purpose: int) -> np.random.Generator:
        if not self._key:
            return np.random.default_rng([self._config.seed, round_num, purpose])
        name = f"{self._config.seed} {round_num} {purpose}".encode()
        return np.random.default_rng(int.from_bytes(hmac.digest(self._key, name, "sha256"), "big"))

    def _to_select(self, clients: int) -> int:
        # The rounding keeps 1.1 * 10 at 11, not 12.
        return math.ceil(round(self._config.over_selection * clients, 9))


def check_in_weights(config: RunConfig, num_messages: np.ndarray) -> np.ndarray | None:
    """Rounds that each client's text fills: `train.check_in` of `num_messages` [clients].

    [clients] >= 1, or None where all check in alike.
    """
    if config.train.check_in == "uniform":
        return None
    return check_ins(num_messages, config.client.max_examples, config.train.check_in_factor)


def share_of_seats(config: TrainConfig, accounts: float) -> float:
    """The most that attackers can have of the cohorts on average, whatever text they claim.

    Of those selected; of those that report, where attackers drop out as often as others do.
    """
    if config.check_in == "uniform":
        return accounts
    most = config.check_in_factor or math.inf
    return min(accounts * most, 1.0) if accounts else 0.0
