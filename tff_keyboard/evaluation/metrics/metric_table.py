"""The table of all metrics: numerator, denominator, name, and the better direction.

A metric is a ratio of sums over a text. Sums of clients add up to the sums of a population, and
each ratio can be jackknifed over clients. To add a metric, add a row to `_ROWS`. If it needs a new
sum, name the sum in `HOST_SUMS` and count it in `predictor_evaluation.py`.

Denominators, by the end of a name:

  all       every target: words, EOS and OOV. EOS and OOV are never suggested, so always missed.
  no_eos    words and OOV: all typed words.
  words     in-vocabulary words only.
  words_eos in-vocabulary words and EOS, with a strip that may suggest EOS.

`accuracy*` follows TFF's Stack Overflow task instead (nothing masked, targets excluded). Keystrokes
are defined in `evaluation/metrics/keystrokes.py`.

Impressions: Hard et al. 2018 (section 6, https://arxiv.org/abs/1811.03604) divide the number of
predictions that match the user's input by the number of times that prediction candidates were
shown. An impression is a strip of next words before any character of the word is typed. A message
of n words therefore has n + 1 impressions: one before each word and one after the last, which
nothing matches. The first one of a message is the zero state (an opened keyboard). A keyboard that
is opened without typing leaves no trace in the text.

>>> METRICS["kss"].format(0.87219)
'87.22'
>>> METRICS["perplexity"].format(8.3912)
'8.4'
"""

import dataclasses
from collections.abc import Collection, Mapping

STRIP = 3  # number of suggestions on a phone's strip

FEDERATED_SUMS: dict[str, type] = {
    "examples": int,  # messages
    "tokens": int,  # targets: words, EOS and OOV
    "eos_tokens": int,
    "oov_tokens": int,
    "nll": float,  # nats, over all targets
    "nll_eos": float,
    "nll_oov": float,
    "hits_at_1": int,  # special ids masked, so hits are in-vocabulary words
    "hits_at_3": int,
    "hits_at_1_eos_allowed": int,  # PAD, BOS, OOV masked: words or EOS
    "hits_at_3_eos_allowed": int,
    "argmax_hits_words": int,  # nothing masked, by kind of target
    "argmax_hits_eos": int,
    "argmax_hits_oov": int,
}
"""Name -> type of the sums that federated evaluation computes on clients.

They count targets that are not PAD. Counts are int64. Log-likelihoods are float64, because a
float32 sum over 10^6 tokens loses the third digit.
"""

HOST_SUMS: dict[str, type] = {
    **FEDERATED_SUMS,
    "characters": int,  # of words that are not masks
    "oov_characters": int,
    "typed_free": int,  # keystrokes, a tap on the strip free
    "typed_counted": int,  # keystrokes, a tap counted as one
    "masked_words": int,  # not in the keystroke sums
    "reciprocal_ranks": float,  # 1 / position on the strip, 0 if not on it
    "impressions": int,  # strips of next words that were shown
    "impression_matches": int,
    "zero_state_impressions": int,  # the first of each message
    "zero_state_matches": int,
    "confidence": float,  # probability of the first word on the strip, over impressions
    "oov_hits_at_1": int,  # OOV words that a strip offered by name, from the user's cache
    "oov_hits_at_3": int,
}
"""Name -> type of all sums in the evaluation of a `Predictor`: `FEDERATED_SUMS` and more."""

# Zero if not counted, because a model with a fixed table offers no other words.
OPTIONAL_SUMS = frozenset({"oov_hits_at_1", "oov_hits_at_3"})

Signs = Mapping[str, int]

HITS_AT_1 = {"hits_at_1": 1, "oov_hits_at_1": 1}
HITS_AT_3 = {"hits_at_3": 1, "oov_hits_at_3": 1}
_WORDS_TYPED = {"tokens": 1, "eos_tokens": -1}
_WORDS = {"tokens": 1, "eos_tokens": -1, "oov_tokens": -1}
_WORDS_EOS = {"tokens": 1, "oov_tokens": -1}
_ALL = {"tokens": 1}
_LOSS_NO_OOV = {"nll": 1, "nll_oov": -1}
_LOSS_WORDS = {"nll": 1, "nll_oov": -1, "nll_eos": -1}


@dataclasses.dataclass(frozen=True)
class Metric:
    """One metric.

    >>> METRICS["recall_at_3_no_eos"].better
    'higher'

    Attributes:
      name: Name in files and tables.
      above: Numerator: name of a sum -> its sign.
      below: Denominator, in the same form.
      label: A few words for a table.
      meaning: Description of numerator and denominator.
      kind: "percent", "perplexity" (exp of the ratio), "nats", "ratio" (a share), or "number".
      better: "higher", "lower", or "" for a property of the text instead of the model.
      headline: Whether printed tables show it; files contain all metrics.
    """

    name: str
    above: Signs
    below: Signs
    label: str
    meaning: str
    kind: str = "percent"
    better: str = "higher"
    headline: bool = True

    def format(self, value: float) -> str:
        """Formats a value for tables; percent without the sign."""
        if self.kind == "percent":
            return f"{100 * value:.2f}"
        return f"{value:.1f}" if self.is_perplexity else f"{value:.4f}"

    @property
    def is_perplexity(self) -> bool:
        """Whether the metric is exp of its ratio. Differences are then factors."""
        return self.kind == "perplexity"

    @property
    def is_share(self) -> bool:
        """Whether the metric is between 0 and 1."""
        return self.kind in ("percent", "ratio")

    @property
    def neutral(self) -> float:
        """The difference of a model to itself."""
        return 1.0 if self.is_perplexity else 0.0

    @property
    def sums(self) -> set[str]:
        """Names of the required sums. `OPTIONAL_SUMS` are required only if alone in `above`."""
        spared = OPTIONAL_SUMS if set(self.above) - OPTIONAL_SUMS else set()
        return {*self.above, *self.below} - spared


_ROWS = (
    Metric("recall_at_1_all", HITS_AT_1, _ALL, "top-1 recall, all tokens",
           "all targets, including ends of messages, which are always misses", headline=False),
    Metric("recall_at_3_all", HITS_AT_3, _ALL, "top-3 recall, all tokens",
           "the same for a strip of 3", headline=False),
    Metric("recall_at_1_no_eos", HITS_AT_1, _WORDS_TYPED, "top-1 recall",
           "share of typed words that were the first suggestion; a word that is not in the "
           "vocabulary is a miss, unless the model has learned it"),
    Metric("recall_at_3_no_eos", HITS_AT_3, _WORDS_TYPED, "top-3 recall",
           "share of typed words that were among the three suggestions"),
    Metric("recall_at_1_words", {"hits_at_1": 1}, _WORDS, "top-1 recall, in vocabulary",
           "the same over in-vocabulary words"),
    Metric("recall_at_3_words", {"hits_at_3": 1}, _WORDS, "top-3 recall, in vocabulary",
           "the same over in-vocabulary words"),
    Metric("recall_at_3_oov", {"oov_hits_at_3": 1}, {"oov_tokens": 1},
           "top-3 recall, unknown words",
           "share of words that are not in the vocabulary, but were on the strip of 3",
           headline=False),
    Metric("recall_at_1_words_eos", {"hits_at_1_eos_allowed": 1}, _WORDS_EOS,
           "top-1, words and end", "words and ends of messages, where the model may suggest an end",
           headline=False),
    Metric("recall_at_3_words_eos", {"hits_at_3_eos_allowed": 1}, _WORDS_EOS,
           "top-3, words and end", "the same on the strip of 3", headline=False),
    Metric("mrr_at_3_no_eos", {"reciprocal_ranks": 1}, _WORDS_TYPED, "MRR@3",
           "mean of 1 / position on the strip, or 0 if the word is not on it", kind="ratio"),
    Metric("kss", {"characters": 1, "typed_free": -1}, {"characters": 1}, "keystrokes saved",
           "share of characters that need not be typed with a strip of 3; taps are free"),
    Metric("kss_selection_counted", {"characters": 1, "typed_counted": -1}, {"characters": 1},
           "keystrokes saved, tap counted",
           "the same, but each accepted suggestion costs one keystroke"),
    Metric("kss_with_spaces", {"characters": 1, "typed_free": -1},
           {"characters": 1, **_WORDS_TYPED, "masked_words": -1}, "keystrokes saved, with spaces",
           "the same with a space after each word; a tap types both and costs one keystroke"),
    Metric("oov_cost", {"oov_characters": 1}, {"characters": 1}, "typed for unknown words",
           "share of characters in words that are not in the vocabulary, which are typed in full",
           better=""),
    Metric("prediction_impression_recall", {"impression_matches": 1}, {"impressions": 1},
           "impression recall", "share of next-word strips that contained the next word"),
    Metric("zero_state_recall", {"zero_state_matches": 1}, {"zero_state_impressions": 1},
           "zero-state recall", "the same for the first strip of a message"),
    Metric("accuracy", {"argmax_hits_words": 1, "argmax_hits_eos": 1, "argmax_hits_oov": 1}, _ALL,
           "accuracy", "as in TFF, without masks", headline=False),
    Metric("accuracy_no_oov", {"argmax_hits_words": 1, "argmax_hits_eos": 1}, _WORDS_EOS,
           "accuracy without OOV", "as in TFF, without masks", headline=False),
    Metric("accuracy_no_oov_or_eos", {"argmax_hits_words": 1}, _WORDS,
           "accuracy without OOV and EOS", "as in TFF, without masks", headline=False),
    Metric("nats_per_token", {"nll": 1}, _ALL, "nats per token",
           "mean negative log-likelihood over words, OOV and ends of messages",
           kind="nats", better="lower", headline=False),
    Metric("nats_per_token_no_oov", _LOSS_NO_OOV, _WORDS_EOS, "nats per token without OOV",
           "the same without OOV targets", kind="nats", better="lower", headline=False),
    Metric("nats_per_token_words", _LOSS_WORDS, _WORDS, "nats per word", "in-vocabulary words only",
           kind="nats", better="lower", headline=False),
    Metric("perplexity", {"nll": 1}, _ALL, "perplexity",
           "exp of the mean negative log-likelihood over words, OOV and ends of messages",
           kind="perplexity", better="lower"),
    Metric("perplexity_no_oov", _LOSS_NO_OOV, _WORDS_EOS, "perplexity without OOV",
           "the same without OOV targets", kind="perplexity", better="lower"),
    Metric("perplexity_words", _LOSS_WORDS, _WORDS, "perplexity of words",
           "the same over in-vocabulary words only", kind="perplexity", better="lower",
           headline=False),
    Metric("oov_rate", {"oov_tokens": 1}, _WORDS_TYPED, "out of vocabulary",
           "share of typed words that are not in the vocabulary", better=""),
)  # fmt: skip

METRICS: dict[str, Metric] = {metric.name: metric for metric in _ROWS}
"""Name -> metric, in the order of tables.

>>> METRICS["kss"].label
'keystrokes saved'
"""

HEADLINES = tuple(metric for metric in _ROWS if metric.headline)


def metric_of(metric: str | Metric) -> Metric:
    """Returns the metric of this package with a name; a `Metric` as it is."""
    return METRICS[metric] if isinstance(metric, str) else metric


def computable(sums: Collection[str]) -> list[str]:
    """Returns the names of the metrics that these sums are enough for, in table order."""
    return [name for name, metric in METRICS.items() if metric.sums <= set(sums)]


FEDERATED_METRICS = tuple(name for name in computable(FEDERATED_SUMS) if METRICS[name].better)
"""The names of the metrics of a federated validation."""
