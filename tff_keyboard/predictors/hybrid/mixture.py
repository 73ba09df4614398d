"""The weights of network, n-gram and owner's cache in a hybrid, and where each applies.

    p(w | h) = sum_i lambda_i(b(h)) p_i(w | h)

with one set of weights, positive and summing to one, for each bucket b: how many words of the
context the n-gram knows (0-1, 2, 3 and more) times what the cache knows of the word before (the
cache is empty; nothing that follows the word; up to 3 occurrences; more). 12 buckets of 3 weights;
an empty cache has none, so 21 numbers are free. Fitted by expectation maximisation on people whose
text trained nothing: the likelihood is concave in the weights, so its steps end at the one maximum.
On `ubuntu_irc` buckets by the word before gave 2 % less perplexity than those by the number of
words in the cache, and 4 % less than one set of weights. Buckets by the network's confidence or
the kind of the word before, too, gained nothing (docs/evaluation.md).

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
FEW = 3.0  # occurrences of a word with something behind it
BUCKETS = ORDER_GROUPS * FAMILIARITIES

# Occurrences of the weights of all text, mixed into each bucket: a bucket few positions fall into
# stays near them, and no weight becomes 0 where the cache may know the word.
PRIOR = 20.0


def familiarity(cache_total: float, followed: float) -> int:
    """What the cache knows of the word before, in [0, FAMILIARITIES).

    `cache_total` is `WordCache.total`; `followed` are the word's uses with something behind it.
    """
    if cache_total <= 0:
        return 0
    return 1 + (followed > 0) + (followed > FEW)


def bucket_of(matched_order: int, known: int) -> int:
    """The bucket of a position, in [0, BUCKETS).

    `matched_order` >= 0 are the words of the longest context the n-gram knows, `known` is of
    `familiarity`.
    """
    return min(max(matched_order - 1, 0), ORDER_GROUPS - 1) * FAMILIARITIES + known


def is_empty_bucket(bucket: int) -> bool:
    """Whether the cache is empty there."""
    return bucket % FAMILIARITIES == 0


@dataclasses.dataclass(frozen=True)
class MixtureWeights:
    """Lambdas."""

    # [BUCKETS, 3] float64, rows sum to one, columns as `COMPONENTS`; the cache's is 0 where it is
    # empty
    table: np.ndarray

    def __post_init__(self) -> None:
        if self.table.shape != (BUCKETS, len(COMPONENTS)):
            raise ValueError(
                f"a table of weights is [{BUCKETS}, {len(COMPONENTS)}], got "
                f"{list(self.table.shape)}"
            )
        if not np.all(self.table >= 0) or not np.allclose(self.table.sum(axis=1), 1, atol=1e-5):
            raise ValueError("weights must be >= 0 and add up to one in each bucket")
        empty = [is_empty_bucket(bucket) for bucket in range(BUCKETS)]
        if np.any(self.table[empty, CACHE] > 0):
            raise ValueError("an empty cache cannot have a weight")

    def to_json(self) -> list[list[float]]:
        """Rows of five digits, as a manifest holds them."""
        return [[round(float(value), 5) for value in row] for row in self.table]

    @classmethod
    def from_json(cls, rows: Any) -> "MixtureWeights":
        """The inverse; a `ValueError` where it is no table of weights."""
        try:
            table = np.array(rows, np.float64)
        except (TypeError, ValueError):
            raise ValueError("weights of the mixture are not a table of numbers") from None
        # Rounded rows need not add up to one.
        if table.ndim == 2 and np.all(table.sum(axis=1) > 0.5):
            table = table / table.sum(axis=1, keepdims=True)
        return cls(table)


def _equal() -> np.ndarray:
    table = np.full([BUCKETS, len(COMPONENTS)], 1 / 3)
    for bucket in filter(is_empty_bucket, range(BUCKETS)):
        table[bucket] = 1 / 2
        table[bucket, CACHE] = 0
    return table


EQUAL = MixtureWeights(_equal())  # before anything is fitted


def fit(
    probabilities: np.ndarray, buckets: np.ndarray, *, steps: int = 200, tolerance: float = 1e-7
) -> tuple[MixtureWeights, list[float]]:
    """Expectation maximisation, until a step gains less than `tolerance`, in nats a word.

    `probabilities` [n, 3] are what each component gave the word that was typed; that of an empty
    cache is not read, and rows of zeros count for nothing. `buckets` [n] are from `bucket_of`. With
    the weights comes the mean log-likelihood, with the pull of `PRIOR`, before each step: never
    falling. Raises `ValueError` if there is nothing to fit on.
    """
    empty = np.array([is_empty_bucket(bucket) for bucket in range(BUCKETS)])
    values = probabilities.astype(np.float64)
    values[empty[buckets], CACHE] = 0
    known = np.any(values > 0, axis=1)
    values, buckets = values[known], buckets[known]
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
    """Maximum a posteriori under a Dirichlet whose pseudo-counts are `prior * start`."""
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
    """Words of the longest context an n-gram knows: [...] int64, in [0, order - 1].

    `nodes` are [..., order - 1] int, from `context_nodes` or `contexts`; -1 where unknown.
    """
    nodes = np.asarray(nodes)
    lengths = np.arange(1, nodes.shape[-1] + 1)
    return np.max(np.where(nodes >= 0, lengths, 0), axis=-1, initial=0)
