"""Metrics of the user: a function of scored words, named in a config.

    [evaluation.metrics.long_words]
    type = "my_metrics.py:long_words"
    min_letters = 8

    def long_words(scored, min_letters: int = 7):
        counted = np.array([len(word) >= min_letters for word in scored.words])
        hits = (scored.suggestions == scored.words[:, np.newaxis]).any(axis=1)
        return hits & counted, counted

The function returns a numerator and a denominator for each position. They are added up for each
client, like the sums of the metrics in `metric_table.py`, so intervals and paired differences are
computed in the same way. The function runs on the machine that evaluates, in NumPy.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tff_keyboard.config.sections.train_config import OwnMetric
from tff_keyboard.data.vocabulary import EOS, NUM_SPECIAL, OOV, Vocabulary
from tff_keyboard.evaluation.metrics.metric_table import METRICS, STRIP, Metric
from tff_keyboard.storage.errors import ConfigError

_NUMERATOR, _DENOMINATOR = "numerator", "denominator"
_OWN = "own/"  # beginning of the names of sums


@dataclasses.dataclass(frozen=True)
class ScoredWords:
    """Typed words and ends of messages, with the predictions of the model: the argument `scored`.

    The n positions of a message follow each other in the order typed, and all positions are of
    whole messages. One call may have messages of several clients.

    Attributes:
      words: [n] the typed words, strings; "" at the end of a message.
      targets: [n] their ids in the model's vocabulary: EOS = 2, OOV = 3, words from 4 on.
      index_in_message: [n] position in the message, from 0.
      vocabulary: [V] the word of each id.
      log_probabilities: [n, V] log-probabilities of the ids, in nats.
    """

    words: np.ndarray
    targets: np.ndarray
    index_in_message: np.ndarray
    vocabulary: Sequence[str]
    log_probabilities: np.ndarray
    # Scores of the strip before the first letter, [n, V + further words]: any monotone function of
    # the probability, -inf for words that are not offered
    strip_scores: np.ndarray
    further_words: Sequence[str] = ()

    @functools.cached_property
    def log_probability(self) -> np.ndarray:
        """Log-probability of the typed word, in nats, [n] float64."""
        rows = np.arange(len(self.targets))
        return self.log_probabilities[rows, self.targets].astype(np.float64)

    @functools.cached_property
    def suggestions(self) -> np.ndarray:
        """The strip before the first letter, best first, [n, 3] strings; "" if it has fewer."""
        words = np.array([*self.vocabulary, *self.further_words, ""], object)
        scores = self.strip_scores[:, NUM_SPECIAL:].copy()
        rows = np.arange(len(scores))
        ids = np.full([len(scores), STRIP], len(words) - 1)
        for rank in range(min(STRIP, scores.shape[1])):
            best = scores.argmax(axis=1)  # ties go to the lower id
            is_offered = scores[rows, best] > -np.inf
            ids[is_offered, rank] = best[is_offered] + NUM_SPECIAL
            scores[rows, best] = -np.inf
        return words[ids]


@dataclasses.dataclass(frozen=True)
class CountedMetric:
    """A metric of the user that can be counted.

    Attributes:
      metric: Its row of the metric table.
      source: Its reference, version, SHA-256 and options, for files of results.
      count: Returns numerator and denominator of each position, [n, 2] float64.
    """

    metric: Metric
    source: Mapping[str, Any]
    count: Callable[[ScoredWords], np.ndarray]


def own_metric(
    name: str, *, label: str, kind: str, better: str, source: Mapping[str, Any]
) -> Metric:
    """Returns the row of the metric table of a user's metric."""
    return Metric(
        name,
        {f"{_OWN}{name}/{_NUMERATOR}": 1},
        {f"{_OWN}{name}/{_DENOMINATOR}": 1},
        label or name.replace("_", " "),
        f"own metric {source['reference']}",
        kind=kind,
        better=better,
    )


def metric_of_table(name: str, table: OwnMetric, source: Mapping[str, Any]) -> Metric:
    """Returns the row of the metric table of a table `evaluation.metrics.NAME`."""
    return own_metric(name, label=table.label, kind=table.kind, better=table.better, source=source)


def sum_names(metrics: Sequence[CountedMetric]) -> list[str]:
    """Returns the names of the sums of metrics, in the order of `counts`."""
    return [name for each in metrics for name in (*each.metric.above, *each.metric.below)]


def counts(metrics: Sequence[CountedMetric], scored: ScoredWords) -> np.ndarray:
    """Returns the contribution of each position to `sum_names`, [n, 2 * metrics] float64.

    All are NaN if a prediction is, because the model has diverged.

    Args:
      metrics: At least one metric.
      scored: The positions.

    Raises:
      ConfigError: A metric raises an error, or returns something else than its counts.
    """
    if np.isnan(scored.log_probability).any():
        return np.full([len(scored.targets), 2 * len(metrics)], np.nan)
    return np.concatenate([each.count(scored) for each in metrics], axis=1)


def build(tables: Mapping[str, OwnMetric]) -> tuple[CountedMetric, ...]:
    """Returns the metrics of the tables `evaluation.metrics`, in their order.

    A metric of a recorded config whose code is missing or not trusted is left out, with a warning.

    Raises:
      ConfigError: A name is the name of a metric of this package, or a part cannot be used.
    """
    metrics = []
    for name, table in tables.items():
        if name in METRICS:
            raise ConfigError(
                f"`evaluation.metrics.{name}`: {name!r} is a metric of this package. Choose "
                "another name."
            )
        if table.problem:
            warnings.warn(
                f"The metric {name!r} is left out. {table.problem}", UserWarning, stacklevel=2
            )
            continue
        source = {**dataclasses.asdict(table.source()), "options": dict(table.settings)}
        metric = metric_of_table(name, table, source)
        count = functools.partial(_count, table, table.function())
        metrics.append(CountedMetric(metric, source, count))
    return tuple(metrics)


def check(tables: Mapping[str, OwnMetric], vocabulary: Vocabulary) -> None:
    """Calls the metrics of a config on a few words, before anything is written.

    Raises:
      ConfigError: As `build` and `counts`.
    """
    metrics = build(tables)
    if not metrics:
        return
    ids = np.array([NUM_SPECIAL, OOV, len(vocabulary) - 1, EOS, EOS], np.int32)
    words = [vocabulary.words[i] for i in ids]
    scores = np.full([len(ids), len(vocabulary)], -np.log(len(vocabulary)), np.float32)
    scored = ScoredWords(
        words=np.array([words[0], "qwertzuiop", words[2], "", ""], object),
        targets=ids,
        index_in_message=np.array([0, 1, 2, 3, 0]),
        vocabulary=vocabulary.words,
        log_probabilities=scores,
        strip_scores=scores,
    )
    counts(metrics, scored)


def check_shares(metrics: Sequence[CountedMetric], sums: Mapping[str, np.ndarray]) -> None:
    """Checks the sums of clients of each metric that is a share.

    Raises:
      ConfigError: A numerator is not between 0 and its denominator. NaN passes.
    """
    for each in metrics:
        (above,), (below,) = each.metric.above, each.metric.below
        if each.metric.is_share and ((sums[above] < 0) | (sums[above] > sums[below])).any():
            raise ConfigError(
                f"`evaluation.metrics.{each.metric.name}` = {each.source['reference']!r} counted a "
                "numerator that is not between 0 and the denominator. If the metric is not a "
                "share, set its key `kind` to 'number'."
            )


def _count(table: OwnMetric, function: Callable[..., Any], scored: ScoredWords) -> np.ndarray:
    """Calls a user's function, and returns its result as [n, sums] float64 if it is valid."""
    with table.errors():
        returned = function(scored=scored)
    problem = _problem(returned, len(scored.targets))
    if problem:
        raise ConfigError(f"`{table.key}` = {table.type!r} {problem}.")
    return np.stack([np.asarray(part, np.float64) for part in returned], axis=1)


def _problem(returned: Any, positions: int) -> str:
    """Returns why the result of a user's metric is not valid, or ""."""
    if not isinstance(returned, tuple | list) or len(returned) != 2:
        kind = type(returned).__name__
        return f"must return two arrays, a numerator and a denominator, got {kind}"
    for part, name in zip(returned, (_NUMERATOR, _DENOMINATOR), strict=True):
        array = np.asarray(part)
        if array.dtype.kind not in "buif" or array.shape != (positions,):
            return (
                f"must return a {name} with one number for each of the {positions} words of the "
                f"call, got {array.dtype} {list(array.shape)}"
            )
        if not np.isfinite(array).all():
            return f"returned a {name} that is not finite"
    return f"returned a negative {_DENOMINATOR}" if (np.asarray(returned[1]) < 0).any() else ""
