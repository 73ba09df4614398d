"""What evaluation counts on a client, and the ratios those sums become.

Everything is a sum over positions with a real target (not PAD), so sums of clients add up to the
population's and each ratio can be jackknifed over people. Counts are int64, log-likelihoods
float64: a float32 sum over 10^6 tokens loses the third digit.

Denominators, as names:

  all       every target: words, EOS and OOV. EOS and OOV are never suggested, so always missed.
  no_eos    words and OOV: what a person typed.
  words     in-vocabulary words only.
  words_eos in-vocabulary words and EOS, with a strip that may suggest EOS.

`accuracy_*` follows TFF's Stack Overflow task instead (nothing masked, targets excluded).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV, PAD
from tff_keyboard.metrics import jackknife, recall
from tff_keyboard.metrics.perplexity import perplexity

STRIP = 3  # suggestions on a phone's strip

SUM_DTYPES: dict[str, tf.DType] = {
    "examples": tf.int64,  # messages
    "tokens": tf.int64,  # targets: words, EOS and OOV
    "eos_tokens": tf.int64,
    "oov_tokens": tf.int64,
    "nll": tf.float64,  # nats, over all targets
    "nll_eos": tf.float64,
    "nll_oov": tf.float64,
    "hits_at_1": tf.int64,  # special ids masked: hits are in-vocabulary words
    "hits_at_3": tf.int64,
    "hits_at_1_eos_allowed": tf.int64,  # PAD, BOS, OOV masked: words or EOS
    "hits_at_3_eos_allowed": tf.int64,
    "argmax_hits_words": tf.int64,  # nothing masked, by kind of target
    "argmax_hits_eos": tf.int64,
    "argmax_hits_oov": tf.int64,
}

RATIOS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    # name: (numerator, denominator), each a signed sum of the names above
    "recall_at_1_all": ({"hits_at_1": 1}, {"tokens": 1}),
    "recall_at_3_all": ({"hits_at_3": 1}, {"tokens": 1}),
    "recall_at_1_no_eos": ({"hits_at_1": 1}, {"tokens": 1, "eos_tokens": -1}),
    "recall_at_3_no_eos": ({"hits_at_3": 1}, {"tokens": 1, "eos_tokens": -1}),
    "recall_at_1_words": (
        {"hits_at_1": 1},
        {"tokens": 1, "eos_tokens": -1, "oov_tokens": -1},
    ),
    "recall_at_3_words": (
        {"hits_at_3": 1},
        {"tokens": 1, "eos_tokens": -1, "oov_tokens": -1},
    ),
    "recall_at_1_words_eos": ({"hits_at_1_eos_allowed": 1}, {"tokens": 1, "oov_tokens": -1}),
    "recall_at_3_words_eos": ({"hits_at_3_eos_allowed": 1}, {"tokens": 1, "oov_tokens": -1}),
    "accuracy": (
        {"argmax_hits_words": 1, "argmax_hits_eos": 1, "argmax_hits_oov": 1},
        {"tokens": 1},
    ),
    "accuracy_no_oov": (
        {"argmax_hits_words": 1, "argmax_hits_eos": 1},
        {"tokens": 1, "oov_tokens": -1},
    ),
    "accuracy_no_oov_or_eos": (
        {"argmax_hits_words": 1},
        {"tokens": 1, "eos_tokens": -1, "oov_tokens": -1},
    ),
    "nats_per_token": ({"nll": 1}, {"tokens": 1}),
    "nats_per_token_no_oov": ({"nll": 1, "nll_oov": -1}, {"tokens": 1, "oov_tokens": -1}),
    "nats_per_token_words": (
        {"nll": 1, "nll_oov": -1, "nll_eos": -1},
        {"tokens": 1, "eos_tokens": -1, "oov_tokens": -1},
    ),
}

# A perplexity is exp of a ratio: its interval is exp of the ratio's interval.
PERPLEXITIES = {
    "perplexity": "nats_per_token",
    "perplexity_no_oov": "nats_per_token_no_oov",
    "perplexity_words": "nats_per_token_words",
}


def losses_of(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """-log p(target) in nats: logits [n, vocabulary], targets [n] -> [n] float32."""
    at_target = tf.gather(logits, targets, batch_dims=1)
    return tf.reduce_logsumexp(logits, axis=1) - at_target


def batch_sums(
    logits: tf.Tensor, losses: tf.Tensor, targets: tf.Tensor, num_examples: tf.Tensor
) -> dict[str, tf.Tensor]:
    """The sums of some positions of a batch.

    Args:
      logits: [n, vocabulary] float32 at real positions.
      losses: [n] float32, -log p(target) in nats.
      targets: [n] int32, no PAD among them.
      num_examples: int scalar, messages these positions complete.

    Returns:
      Scalars named and typed as `SUM_DTYPES`, in its order.
    """
    is_eos, is_oov = tf.equal(targets, EOS), tf.equal(targets, OOV)
    is_word = targets >= NUM_SPECIAL
    losses = tf.cast(losses, tf.float64)
    ranked = recall.best_ids(logits, STRIP)
    but_eos = (PAD, BOS, OOV)

    def hits(k: int, masked: Sequence[int], counted: tf.Tensor | None = None) -> tf.Tensor:
        return recall.count_hits(ranked, targets, k=k, masked_ids=masked, counted=counted)

    count = tf.math.count_nonzero
    special = (PAD, BOS, EOS, OOV)
    sums = {
        "examples": tf.cast(num_examples, tf.int64),
        "tokens": tf.size(targets, tf.int64),
        "eos_tokens": count(is_eos),
        "oov_tokens": count(is_oov),
        "nll": tf.reduce_sum(losses),
        "nll_eos": tf.reduce_sum(tf.boolean_mask(losses, is_eos)),
        "nll_oov": tf.reduce_sum(tf.boolean_mask(losses, is_oov)),
        "hits_at_1": hits(1, special),
        "hits_at_3": hits(STRIP, special),
        "hits_at_1_eos_allowed": hits(1, but_eos),
        "hits_at_3_eos_allowed": hits(STRIP, but_eos),
        "argmax_hits_words": hits(1, (), is_word),
        "argmax_hits_eos": hits(1, (), is_eos),
        "argmax_hits_oov": hits(1, (), is_oov),
    }
    assert list(sums) == list(SUM_DTYPES)
    return sums


def combine(sums: Mapping[str, Any], signs: Mapping[str, int]) -> np.ndarray:
    """A signed sum of named sums, in float64; per client where the inputs are."""
    terms = [sign * np.asarray(sums[name], np.float64) for name, sign in signs.items()]
    return np.sum(terms, axis=0)


def intervals(
    sums_per_client: Mapping[str, np.ndarray], *, level: float = 0.95
) -> dict[str, jackknife.Interval]:
    """Every ratio and perplexity with its jackknife interval over clients.

    Args:
      sums_per_client: Name of `SUM_DTYPES` -> [clients].
      level: Coverage, in (0, 1).

    Returns:
      Every name of `RATIOS` and `PERPLEXITIES`. A perplexity's ends are exp of its nats' ends, its
      standard error is that of the nats times the perplexity (first order).
    """
    results = {}
    for name, (numerator, denominator) in RATIOS.items():
        results[name] = jackknife.ratio_interval(
            combine(sums_per_client, numerator), combine(sums_per_client, denominator), level=level
        )
    for name, ratio in PERPLEXITIES.items():
        nats = results[ratio]
        value = perplexity(nats.value, 1)
        results[name] = jackknife.Interval(
            value,
            perplexity(nats.low, 1),
            perplexity(nats.high, 1),
            value * nats.standard_error,
            nats.clients,
        )
    return results


def finalize(sums: Mapping[str, Any]) -> dict[str, float]:
    """Ratios and perplexities of a population.

    Args:
      sums: Every name of `SUM_DTYPES`, each a scalar or an array over clients (added up here).

    Returns:
      Every name of `RATIOS` and `PERPLEXITIES`; nan where a denominator is 0.
    """
    totals = {name: np.sum(np.asarray(sums[name], np.float64)) for name in SUM_DTYPES}
    results = {}
    for name, (numerator, denominator) in RATIOS.items():
        below = float(combine(totals, denominator))
        results[name] = float(combine(totals, numerator)) / below if below else math.nan
    for name, ratio in PERPLEXITIES.items():
        results[name] = perplexity(results[ratio], 1)
    return results
