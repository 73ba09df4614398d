"""Attackers who see everything: what a share of colluding clients sends instead of its deltas.

`attacks.py` attacks from inside one client's work. Here attackers know the honest deltas of the
round, as the strongest published attacks assume, and send whatever harms most. For simulations:
NumPy, deltas as rows of a matrix.

    alie      mu - z sd, z by the number of clients (Baruch et al. 2019,
              https://arxiv.org/abs/1902.06156)
    ipm       -mu, as long as an honest delta (Xie et al. 2019, https://arxiv.org/abs/1903.03936)
    min_max   mu - gamma sd, gamma the largest with which no honest delta is farther from it than
              the farthest two honest ones from each other (Shejwalkar & Houmansadr 2021, NDSS)
    backdoor  deltas of poisoned training, scaled to replace the model but no longer than the
              longest honest one (constrain and scale: Bagdasaryan et al. 2020,
              https://arxiv.org/abs/1807.00459)
    quiet_backdoor  the mean of those, each coordinate cut to the honest quartiles, where no
              trimming by coordinate finds it (ours)
    free_ride the last aggregate, for the fame of having taken part (Lin et al. 2019)
"""

import dataclasses
from collections.abc import Callable

import numpy as np
from scipy import special

WEIGHT_LIE = 1e6
BOOST = -100.0


@dataclasses.dataclass(frozen=True)
class View:
    """What attackers know of a round.

    Attributes:
      honest: [honest clients, dim] their deltas.
      own: [attackers, dim] what the attackers' own training gave (on their own text, shuffled
        labels or poisoned text, as the attack has it).
      last: [dim] the last aggregate; zeros in the first round.
    """

    honest: np.ndarray
    own: np.ndarray
    last: np.ndarray

    @property
    def clients(self) -> int:
        """In the cohort."""
        return len(self.honest) + len(self.own)

    def all_send(self, delta: np.ndarray) -> np.ndarray:
        """One delta for all attackers."""
        return np.repeat(delta[np.newaxis], len(self.own), axis=0)


def _alie(view: View) -> np.ndarray:
    return view.all_send(view.honest.mean(0) - alie_z(view.clients, len(view.own)) * _spread(view))


def alie_z(clients: int, attackers: int) -> float:
    """How many standard deviations hide among the honest; Baruch et al., section 3.2.

    >>> round(alie_z(50, 24), 2)
    1.43
    """
    supporters = clients // 2 + 1 - attackers
    share = (clients - attackers - supporters) / (clients - attackers)
    return max(float(special.ndtri(np.clip(share, 1e-9, 1 - 1e-9))), 0.0)


def _ipm(view: View) -> np.ndarray:
    mean = view.honest.mean(0)
    length = np.median(np.linalg.norm(view.honest, axis=1))
    return view.all_send(-mean * length / max(np.linalg.norm(mean), 1e-30))


def _min_max(view: View) -> np.ndarray:
    mean, spread = view.honest.mean(0), _spread(view)
    farthest = np.sqrt(np.max(squared_distances(view.honest, view.honest)))
    low, high = 0.0, 100.0
    for _ in range(40):
        gamma = (low + high) / 2
        sent = mean - gamma * spread
        inside = np.max(np.linalg.norm(view.honest - sent, axis=1)) <= farthest
        low, high = (gamma, high) if inside else (low, gamma)
    return view.all_send(mean - low * spread)


def _constrain_and_scale(view: View) -> np.ndarray:
    lengths = np.linalg.norm(view.own, axis=1, keepdims=True)
    longest = np.max(np.linalg.norm(view.honest, axis=1))
    replace = view.clients / len(view.own)
    return view.own * np.minimum(replace, longest / np.maximum(lengths, 1e-30))


def _within_the_quartiles(view: View) -> np.ndarray:
    low, high = np.quantile(view.honest, [0.25, 0.75], axis=0)
    return view.all_send(np.clip(_constrain_and_scale(view).mean(0), low, high))


# Attack -> what the attackers send. Those that change the training send what it gave.
SENT: dict[str, Callable[[View], np.ndarray]] = {
    "sign_flip": lambda view: -view.own,
    "boost": lambda view: BOOST * view.own,
    "label_shuffle": lambda view: view.own,
    "weight_lie": lambda view: -view.own,  # with WEIGHT_LIE times the weight
    "alie": _alie,
    "ipm": _ipm,
    "min_max": _min_max,
    "backdoor": _constrain_and_scale,
    "quiet_backdoor": _within_the_quartiles,
    "free_ride": lambda view: view.all_send(view.last),
}

BACKDOORS = ("backdoor", "quiet_backdoor")  # their own training is on poisoned text


def sent_by_attackers(attack: str, view: View) -> np.ndarray:
    """[attackers, dim] the deltas that arrive instead of the attackers' own.

    Raises:
      ValueError: There is no such attack, or nobody is honest.
    """
    if attack not in SENT:
        raise ValueError(f"`attack` must be one of {', '.join(SENT)}; got {attack!r}.")
    if not len(view.honest):
        raise ValueError("`view.honest` is empty: attackers hide among the honest.")
    return SENT[attack](view)


def squared_distances(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[len(a), len(b)] squared L2 distances of rows, >= 0."""
    squares = np.sum(a * a, axis=1)[:, np.newaxis] + np.sum(b * b, axis=1) - 2 * a @ b.T
    return np.maximum(squares, 0.0)


def _spread(view: View) -> np.ndarray:
    return view.honest.std(0)
