"""Which words of people may be in a vocabulary, with a guarantee: the weighted Gaussian threshold.

    a person's k <= max_words most typed words get 1 / sqrt(k) each: one vector of norm 1 a person
    released: the words w with  sum of weights + N(0, sigma^2) >= threshold

The sum has sensitivity 1 in L2, so the noisy weights are a Gaussian mechanism with rho =
1 / (2 sigma^2). A word that only one person typed must not be released either, because its mere
presence tells; the threshold makes that happen with probability <= delta_of_words, all the words of
the person together:

    threshold = max over k of  1 / sqrt(k) + sigma Phi^-1((1 - delta_of_words)^(1 / k))

Together (epsilon of rho at delta_of_counts, delta_of_counts + delta_of_words). Half of delta goes
to each.

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

# Size to independent standard normal draws.
Normal = Callable[[int], np.ndarray]


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyMechanism:
    """The numbers of one choice of words."""

    # Standard deviation of the noise on a word's weight; a person moves weights by 1 in L2
    sigma: float
    threshold: float  # words of less noisy weight stay out
    max_words: int  # words of a person that count, >= 1
    delta_of_words: float  # the chance that a word of one person alone gets in, at most

    @property
    def rho(self) -> float:
        """zCDP of the noisy weights."""
        return 1 / (2 * self.sigma**2)


def threshold_of(sigma: float, *, max_words: int, delta_of_words: float) -> float:
    """The least threshold of the module's formula.

    >>> round(threshold_of(1.0, max_words=1, delta_of_words=1e-6), 3)
    5.753
    """
    k = np.arange(1, max_words + 1)
    # log1p and ndtri of the upper tail keep digits where (1 - delta)^(1/k) is 1 in float64.
    upper = -np.expm1(np.log1p(-delta_of_words) / k)
    from scipy import special

    return float(np.max(1 / np.sqrt(k) - sigma * special.ndtri(upper)))


def plan_vocabulary(*, epsilon: float, delta: float, max_words: int) -> VocabularyMechanism:
    """The least noise for (epsilon, delta), half of delta for the words of one person.

    Raises `ValueError` if epsilon is not > 0, delta not in (0, 1), or `max_words`, the words of a
    person that count, not >= 1.
    """
    from tff_keyboard.privacy.accounting import accounting  # two seconds

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
    """Weights of words, to which nobody adds more than a vector of norm 1 for `max_words` words."""

    def __init__(self, max_words: int):
        self._max_words = max_words
        self._weights: dict[str, float] = collections.defaultdict(float)

    @property
    def weights(self) -> Mapping[str, float]:
        """Word to its exact weight: as secret as the data."""
        return self._weights

    def add_person(self, words: Iterable[str]) -> None:
        """All that a person typed, once; the most typed words count, ties in alphabetical order."""
        counted = collections.Counter(words)
        most = sorted(counted, key=lambda word: (-counted[word], word))[: self._max_words]
        for word in most:
            self._weights[word] += 1 / math.sqrt(len(most))

    def released(self, mechanism: VocabularyMechanism, normal: Normal) -> dict[str, float]:
        """Word to noisy weight, of those that reach the threshold.

        `normal` generates the noise, one draw a word in alphabetical order; it must be secret, and
        one set of weights must meet one draw only. The mechanism has the counts' `max_words`.
        """
        if mechanism.max_words != self._max_words:
            raise ValueError(
                f"`mechanism` is for {mechanism.max_words} words a person, the counts have "
                f"{self._max_words}."
            )
        words = sorted(self._weights)
        exact = np.array([self._weights[word] for word in words])
        noisy = exact + mechanism.sigma * normal(len(words))
        kept = np.flatnonzero(noisy >= mechanism.threshold)
        return {words[i]: float(noisy[i]) for i in kept}


def fresh_normal(size: int) -> np.ndarray:
    """[size] draws under a key that nobody keeps."""
    return keyed_normal(secrets.token_bytes(32), "vocabulary", size)
