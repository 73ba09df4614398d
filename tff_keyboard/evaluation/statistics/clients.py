"""Differences of a metric between clients, which a total over all words hides.

Totals weight clients by their number of words, so three heavy users can determine two thirds of a
figure. Here every client has the same weight: mean, deciles and worst tenth of the values of single
clients, and the share of clients for which one model is better than another. The value of a client
with few words is noisy, so only clients with at least `MIN_WORDS` words count; all count if
fewer than ten clients have as many.
"""

import dataclasses
import math

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import Metric, metric_of
from tff_keyboard.evaluation.statistics.jackknife import Interval, ratio_interval
from tff_keyboard.evaluation.statistics.sums import Sums, parts

MIN_WORDS = 100  # minimum number of words of a client that counts
_MIN_CLIENTS = 10

DECILES = tuple(tenth / 10 for tenth in range(1, 10))


@dataclasses.dataclass(frozen=True)
class Spread:
    """The distribution of one metric over clients."""

    mean: Interval  # mean of the clients' values with equal weights, with its 95 % interval
    deciles: tuple[float, ...]
    worst_tenth: float  # mean over the worst-served tenth of the clients (rounded up)


def words_typed(sums: Sums) -> np.ndarray:
    """Returns the number of evaluated words of each client, including OOV, [clients]."""
    return np.asarray(sums["tokens"] - sums["eos_tokens"], np.float64)


def who_counts(sums: Sums, min_words: int = MIN_WORDS) -> np.ndarray:
    """Returns the clients that count, [clients] bool."""
    enough = words_typed(sums) >= min_words
    return enough if np.count_nonzero(enough) >= _MIN_CLIENTS else words_typed(sums) > 0


def values_of_clients(sums: Sums, metric: str | Metric) -> np.ndarray:
    """Returns a metric of each client, [clients]; nan if the denominator is 0."""
    metric = metric_of(metric)
    numerators, denominators = parts(sums, metric)
    ratio = np.divide(
        numerators, denominators, out=np.full(len(denominators), math.nan), where=denominators > 0
    )
    with np.errstate(over="ignore"):
        return np.exp(ratio) if metric.is_perplexity else ratio


def spread(sums: Sums, metric: str | Metric) -> Spread:
    """Returns the mean, deciles and worst tenth of a metric over the clients that count.

    A perplexity is averaged in nats, so its mean is the geometric mean.
    """
    metric = metric_of(metric)
    values = values_of_clients(sums, metric)[who_counts(sums)]
    values = np.log(values) if metric.is_perplexity else values
    values = np.sort(values[np.isfinite(values)])
    if not len(values):
        nothing = Interval(math.nan, math.nan, math.nan, math.nan, 0)
        return Spread(nothing, (math.nan,) * len(DECILES), math.nan)
    mean = ratio_interval(values, np.ones(len(values)))
    tenth = math.ceil(len(values) / 10)
    worst = values[-tenth:] if metric.better == "lower" else values[:tenth]
    deciles = tuple(float(value) for value in np.quantile(values, DECILES))
    if metric.is_share:
        mean = mean._replace(low=max(mean.low, 0.0), high=min(mean.high, 1.0))
    if not metric.is_perplexity:
        return Spread(mean, deciles, float(worst.mean()))
    value, low, high = (float(np.exp(end)) for end in mean[:3])
    mean = mean._replace(value=value, low=low, high=high, standard_error=value * mean[3])
    return Spread(mean, tuple(float(np.exp(d)) for d in deciles), float(np.exp(worst.mean())))


def share_better(first: Sums, second: Sums, metric: str | Metric) -> Interval:
    """Returns the share of clients for which the first model is better; a tie counts half."""
    metric = metric_of(metric)
    first_values, second_values = (
        values_of_clients(first, metric),
        values_of_clients(second, metric),
    )
    counted = who_counts(first) & np.isfinite(first_values) & np.isfinite(second_values)
    gain = np.sign(first_values[counted] - second_values[counted])
    if metric.better == "lower":
        gain = -gain
    return ratio_interval((1 + gain) / 2, np.ones(len(gain)))


def typists(sums: Sums) -> dict[str, np.ndarray]:
    """Returns groups of clients by their number of words: name -> [clients] bool.

    `heavy` is the smallest group of clients that typed half of all words, `light` are all others.
    """
    words = words_typed(sums)
    order = np.argsort(-words, kind="stable")
    before = np.cumsum(words[order]) - words[order]
    heavy = np.zeros(len(words), bool)
    heavy[order] = before < words.sum() / 2
    return {"heavy": heavy & (words > 0), "light": ~heavy & (words > 0)}
