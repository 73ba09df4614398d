"""Chooses the words of a vocabulary with a privacy guarantee: the weighted Gaussian threshold.

    each of a client's k <= max_words most typed words gets 1 / sqrt(k): one vector of norm 1
    released: the words w with  sum of weights + N(0, sigma^2) >= threshold

The sum has L2 sensitivity 1, so the noisy weights are a Gaussian mechanism with rho = 1 / (2
sigma^2). A word that only one client typed must not be released either, because its presence alone
reveals the client. The threshold bounds the probability of this, for all words of the client
together, by delta_of_words:

    threshold = max over k of  1 / sqrt(k) + sigma Phi^-1((1 - delta_of_words)^(1 / k))

The total guarantee is (epsilon of rho at delta_of_counts, delta_of_counts + delta_of_words). Each
of the two gets half of delta.

Source: Gopi et al. 2020, Algorithm 5 and Theorem 5.1 (weighted Gaussian),
https://arxiv.org/abs/2002.09745.
"""

import collections
import dataclasses
import math
import secrets
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from tff_keyboard.privacy.mechanisms.keyed_normal import keyed_normal

# Returns the given number of independent standard normal draws.
Normal = Callable[[int], np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyMechanism:
    """The parameters of a private choice of words."""

    # Standard deviation of the noise on a word's weight. One client changes the weights by 1 in L2.
    sigma: float
    threshold: float  # words with a smaller noisy weight are not released
    max_words: int  # maximum number of words of a client, >= 1
    delta_of_words: float  # bound on the probability of releasing a word of only one client

    @property
    def rho(self) -> float:
        """The zCDP parameter of the noisy weights."""
        return 1 / (2 * self.sigma**2)


def threshold_of(sigma: float, *, max_words: int, delta_of_words: float) -> float:
    """Returns the smallest threshold that satisfies the module's formula.

    >>> round(threshold_of(1.0, max_words=1, delta_of_words=1e-6), 3)
    5.753
    """
    k = np.arange(1, max_words + 1)
    # log1p and the upper tail of ndtri are exact even if (1 - delta)^(1/k) rounds to 1 in float64.
    upper = -np.expm1(np.log1p(-delta_of_words) / k)
    from scipy import special

    return float(np.max(1 / np.sqrt(k) - sigma * special.ndtri(upper)))


def plan_vocabulary(*, epsilon: float, delta: float, max_words: int) -> VocabularyMechanism:
    """Returns the mechanism with the least noise for (epsilon, delta).

    Half of delta covers the words of only one client.

    Args:
      epsilon: Epsilon of the choice, > 0.
      delta: Delta of the choice, in (0, 1).
      max_words: Maximum number of words of a client that count, >= 1.

    Raises:
      ValueError: If an argument is out of range.
    """
    from tff_keyboard.privacy.accounting import accounting  # takes two seconds to import

    if max_words < 1:
        raise ValueError(f"`max_words` must be >= 1, got {max_words}.")
    sigma = accounting.calibrate_noise_multiplier(
        lambda z: accounting.unsampled_gaussian(
            noise_multiplier=z, participations=1, delta=delta / 2
        ),
        target_epsilon=epsilon,
    )
    threshold = threshold_of(sigma, max_words=max_words, delta_of_words=delta / 2)
    return VocabularyMechanism(
        sigma=sigma, threshold=threshold, max_words=max_words, delta_of_words=delta / 2
    )


class BoundedCounts:
    """Word weights, to which each client adds a vector of norm 1 for at most `max_words` words."""

    def __init__(self, max_words: int):
        self._max_words = max_words
        self._weights: dict[str, float] = collections.defaultdict(float)

    @property
    def weights(self) -> Mapping[str, float]:
        """Returns word -> exact weight. As secret as the data."""
        return self._weights

    def add_client(self, words: Iterable[str]) -> None:
        """Adds all words of one client. Call it once per client.

        The most frequent words count; ties are broken alphabetically.
        """
        counted = collections.Counter(words)
        frequent = sorted(counted, key=lambda word: (-counted[word], word))[: self._max_words]
        for word in frequent:
            self._weights[word] += 1 / math.sqrt(len(frequent))

    def released(self, mechanism: VocabularyMechanism, normal: Normal) -> dict[str, float]:
        """Returns word -> noisy weight for the words that reach the threshold.

        Args:
          mechanism: The mechanism, with the same `max_words` as these counts.
          normal: Generates the noise, one draw per word in alphabetical order. The noise must be
            secret, and used for this one release only.
        """
        if mechanism.max_words != self._max_words:
            raise ValueError(
                f"`mechanism` allows {mechanism.max_words} words per client, but the counts have "
                f"{self._max_words}."
            )
        words = sorted(self._weights)
        exact = np.array([self._weights[word] for word in words])
        noisy = exact + mechanism.sigma * normal(len(words))
        released = np.flatnonzero(noisy >= mechanism.threshold)
        return {words[i]: float(noisy[i]) for i in released}


def fresh_normal(size: int) -> np.ndarray:
    """Returns [size] draws under a new random key, which is not stored."""
    return keyed_normal(secrets.token_bytes(32), "vocabulary", size)
