"""How a metric differs between people: what a total over all words hides.

Totals weigh people by what they typed, so three heavy typists can be two thirds of a figure. Here
every person counts once: mean, deciles and the worst tenth of the values of single people, and the
share of people for whom one model is better than another. People with few words have a noisy value
of their own, so only those with `FEWEST_WORDS` count; all do where fewer than ten people have so
many.
"""

import dataclasses
import math

import numpy as np

from tff_keyboard.evaluation.metrics.metric_table import METRICS
from tff_keyboard.evaluation.statistics.jackknife import Interval, ratio_interval
from tff_keyboard.evaluation.statistics.sums import Sums, parts

FEWEST_WORDS = 100  # of a person who counts
_FEWEST_PEOPLE = 10

DECILES = tuple(tenth / 10 for tenth in range(1, 10))


@dataclasses.dataclass(frozen=True)
class Spread:
    """One metric over people."""

    mean: Interval  # mean of the people's own values, each counting once, with its 95 % interval
    deciles: tuple[float, ...]
    worst_tenth: float  # mean over the tenth of the people (rounded up) whom the model serves worst


def words_typed(sums: Sums) -> np.ndarray:
    """Words of each person that were evaluated, OOV included: [people]."""
    return np.asarray(sums["tokens"] - sums["eos_tokens"], np.float64)


def who_counts(sums: Sums, fewest_words: int = FEWEST_WORDS) -> np.ndarray:
    """People whose own values say something: [people] bool."""
    enough = words_typed(sums) >= fewest_words
    return enough if np.count_nonzero(enough) >= _FEWEST_PEOPLE else words_typed(sums) > 0


def values_of_people(sums: Sums, name: str) -> np.ndarray:
    """A metric of each person: [people]; nan where the denominator is 0."""
    above, below = parts(sums, METRICS[name])
    ratio = np.divide(above, below, out=np.full(len(below), math.nan), where=below > 0)
    with np.errstate(over="ignore"):
        return np.exp(ratio) if METRICS[name].is_perplexity else ratio


def spread(sums: Sums, name: str) -> Spread:
    """Mean, deciles and worst tenth of a metric over the people who count.

    A perplexity is averaged in nats: its mean is the geometric one.
    """
    metric = METRICS[name]
    values = values_of_people(sums, name)[who_counts(sums)]
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


def share_better(first: Sums, second: Sums, name: str) -> Interval:
    """Share of the people who count for whom the first model is better; a tie is half a person."""
    one, other = values_of_people(first, name), values_of_people(second, name)
    counted = who_counts(first) & np.isfinite(one) & np.isfinite(other)
    gain = np.sign(one[counted] - other[counted])
    if METRICS[name].better == "lower":
        gain = -gain
    return ratio_interval((1 + gain) / 2, np.ones(len(gain)))


def typists(sums: Sums) -> dict[str, np.ndarray]:
    """Groups of people by how much they typed: name -> [people] bool.

    `heavy` are the fewest people who typed half of all words, `light` all others.
    """
    words = words_typed(sums)
    order = np.argsort(-words, kind="stable")
    before = np.cumsum(words[order]) - words[order]
    heavy = np.zeros(len(words), bool)
    heavy[order] = before < words.sum() / 2
    return {"heavy": heavy & (words > 0), "light": ~heavy & (words > 0)}
