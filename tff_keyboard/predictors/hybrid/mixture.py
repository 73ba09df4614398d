"""The weights of network, n-gram and owner's cache in a hybrid, by bucket of positions.

    p(w | h) = sum_i lambda_i(b(h)) p_i(w | h)

Each bucket b has one set of weights, positive and summing to one. A bucket is the number of context
words that the n-gram knows (0-1, 2, 3 and more) times the cache's knowledge of the previous word
(empty cache; no word follows it; up to 3 occurrences; more). There are 12 buckets of 3 weights. An
empty cache has no weight, so 21 numbers are free. They are fitted by expectation maximisation on
users whose text was not trained on: the likelihood is concave in the weights, so the steps converge
to the global maximum. On `ubuntu_irc`, buckets by the previous word gave 2 % less perplexity than
buckets by the number of words in the cache, and 4 % less than one set of weights. Additional
buckets by the network's confidence or by the kind of the previous word gained nothing
(docs/evaluation.md).

Source: Jelinek and Mercer 1980, "Interpolated estimation of Markov source parameters from sparse
data".
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

COMPONENTS = ("network", "ngram", "cache")
CACHE = COMPONENTS.index("cache")
ORDER_GROUPS = 3
FAMILIARITIES = 4
FEW = 3.0  # occurrences of a word with a following word
BUCKETS = ORDER_GROUPS * FAMILIARITIES

# Pseudo-occurrences of the weights over all text in each bucket. A bucket with few positions stays
# near these weights, and no weight becomes 0 if the cache may know the word.
PRIOR = 20.0


def familiarity(cache_total: float, followed: float) -> int:
    """Returns the cache's familiarity with the previous word, in [0, FAMILIARITIES).

    Args:
      cache_total: `WordCache.total`.
      followed: Uses of the previous word with a following word.
    """
    if cache_total <= 0:
        return 0
    return 1 + (followed > 0) + (followed > FEW)


def bucket_of(matched_order: int, familiarity_group: int) -> int:
    """Returns the bucket of a position, in [0, BUCKETS).

    Args:
      matched_order: Number of words >= 0 in the longest context that the n-gram knows.
      familiarity_group: Result of `familiarity`.
    """
    return min(max(matched_order - 1, 0), ORDER_GROUPS - 1) * FAMILIARITIES + familiarity_group


def is_empty_bucket(bucket: int) -> bool:
    """Checks if the cache is empty in a bucket."""
    return bucket % FAMILIARITIES == 0


@dataclasses.dataclass(frozen=True)
class MixtureWeights:
    """Interpolation weights, one row per context bucket."""

    # [BUCKETS, 3] float64, rows sum to one, columns as in `COMPONENTS`. The cache's weight is 0 in
    # buckets with an empty cache
    table: np.ndarray

    def __post_init__(self) -> None:
        if self.table.shape != (BUCKETS, len(COMPONENTS)):
            raise ValueError(
                f"the table of weights must be [{BUCKETS}, {len(COMPONENTS)}], got "
                f"{list(self.table.shape)}"
            )
        if not np.all(self.table >= 0) or not np.allclose(self.table.sum(axis=1), 1, atol=1e-5):
            raise ValueError("weights must be >= 0 and add up to one in each bucket")
        empty = [is_empty_bucket(bucket) for bucket in range(BUCKETS)]
        if np.any(self.table[empty, CACHE] > 0):
            raise ValueError("an empty cache cannot have a weight")

    def to_json(self) -> list[list[float]]:
        """Returns rows with five digits, as in a manifest."""
        return [[round(float(value), 5) for value in row] for row in self.table]

    @classmethod
    def from_json(cls, rows: Any) -> "MixtureWeights":
        """Reads the result of `to_json`. Raises `ValueError` if it is not a table of weights."""
        try:
            table = np.array(rows, np.float64)
        except (TypeError, ValueError):
            raise ValueError("weights of the mixture are not a table of numbers") from None
        # Rounded rows may not add up to one.
        if table.ndim == 2 and np.all(table.sum(axis=1) > 0.5):
            table = table / table.sum(axis=1, keepdims=True)
        return cls(table)


def _equal() -> np.ndarray:
    """Returns equal weights, [buckets, 3]; none for the cache in buckets where it is empty."""
    table = np.full([BUCKETS, len(COMPONENTS)], 1 / 3)
    for bucket in filter(is_empty_bucket, range(BUCKETS)):
        table[bucket] = 1 / 2
        table[bucket, CACHE] = 0
    return table


EQUAL = MixtureWeights(_equal())  # the weights before a fit


def _without_ngram() -> np.ndarray:
    """Returns weights for a hybrid without an n-gram, [buckets, 3]."""
    table = np.zeros([BUCKETS, len(COMPONENTS)])
    for bucket in range(BUCKETS):
        table[bucket, CACHE] = _CACHE_ALONE[bucket % FAMILIARITIES]
    table[:, 0] = 1 - table[:, CACHE]
    return table


# Weight of the cache by familiarity, for an export without an n-gram, whose weights nobody fitted:
# that of models/base, on average over the n-gram's contexts.
_CACHE_ALONE = (0.0, 0.019, 0.063, 0.177)
WITHOUT_NGRAM = MixtureWeights(_without_ngram())


def fit(
    probabilities: np.ndarray, buckets: np.ndarray, *, steps: int = 200, tolerance: float = 1e-7
) -> tuple[MixtureWeights, list[float]]:
    """Fits the weights by expectation maximisation.

    Args:
      probabilities: [n, 3], the probability of the typed word in each component. The value of an
        empty cache is ignored, and rows of zeros do not count.
      buckets: [n], results of `bucket_of`.
      steps: Maximum number of steps.
      tolerance: Stops when a step gains less than this, in nats per word.

    Returns:
      The weights, and the mean log-likelihood, including the prior `PRIOR`, before each step. It
      never decreases.

    Raises:
      ValueError: If there is no word to fit on.
    """
    empty = np.array([is_empty_bucket(bucket) for bucket in range(BUCKETS)])
    values = probabilities.astype(np.float64)
    values[empty[buckets], CACHE] = 0
    has_probability = np.any(values > 0, axis=1)
    values, buckets = values[has_probability], buckets[has_probability]
    if not len(values):
        raise ValueError("There are no words to fit the mixture on.")
    everywhere, _ = _expectation_maximisation(
        values, np.zeros(len(values), int), 1, np.full([1, 3], 1 / 3), 0.0, steps, tolerance
    )
    pull = np.tile(everywhere[0], [BUCKETS, 1])
    pull[empty, CACHE] = 0
    pull /= pull.sum(axis=1, keepdims=True)
    table, gains = _expectation_maximisation(
        values, buckets, BUCKETS, pull, PRIOR, steps, tolerance
    )
    return MixtureWeights(table), gains


def _expectation_maximisation(
    values: np.ndarray,
    buckets: np.ndarray,
    num_buckets: int,
    start: np.ndarray,
    prior: float,
    steps: int,
    tolerance: float,
) -> tuple[np.ndarray, list[float]]:
    """Maximises the posterior under a Dirichlet prior with pseudo-counts `prior * start`."""
    table = start
    gains: list[float] = []
    counts = np.bincount(buckets, minlength=num_buckets) + prior
    for _ in range(steps):
        joint = table[buckets] * values
        total = joint.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            pulled = np.where(start > 0, prior * start * np.log(table), 0.0)
        gains.append(float(np.log(total).sum() + pulled.sum()) / len(values))
        if len(gains) > 1 and gains[-1] - gains[-2] < tolerance:
            break
        shares = joint / total[:, np.newaxis]
        summed = np.stack(
            [np.bincount(buckets, shares[:, i], num_buckets) for i in range(values.shape[1])],
            axis=1,
        )
        table = np.where(counts[:, np.newaxis] > 0, (summed + prior * start), start)
        table = table / table.sum(axis=1, keepdims=True)
    return table, gains


def matched_orders(nodes: np.ndarray | Sequence[int]) -> np.ndarray:
    """Returns the number of words in the longest context that an n-gram knows, [...] int64.

    `nodes` are [..., order - 1] int from `context_nodes` or `contexts`, with -1 for unknown
    contexts.
    """
    nodes = np.asarray(nodes)
    lengths = np.arange(1, nodes.shape[-1] + 1)
    return np.max(np.where(nodes >= 0, lengths, 0), axis=-1, initial=0)
