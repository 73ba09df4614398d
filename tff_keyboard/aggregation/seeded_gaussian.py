"""The Gaussian mechanism with noise keyed by (seed, round): fixed or adaptive clip norm.

    result = (sum_k clip(delta_k, C) + N(0, (z C)^2)) / denominator

A `tensorflow_privacy` query, run by `tff.aggregators.DifferentiallyPrivateFactory`: the record
aggregation (a plain or a secure sum) is TFF's, clipping and noise are here. The noise is drawn
from nothing but the query's state, so that a resumed run repeats it to the bit; TFF's own
`gaussian_fixed` draws afresh.

Sources: McMahan et al. 2018, https://arxiv.org/abs/1710.06963; adaptive clipping: see
`adaptive_clip.py`.
"""

import collections
from typing import NamedTuple

import dp_accounting
import tensorflow as tf
import tensorflow_privacy as tfp

from tff_keyboard.aggregation.adaptive_clip import (
    AdaptiveClip,
    clip_with_norm,
    delta_noise_multiplier,
)
from tff_keyboard.aggregation.seeded_noise import fold_in, run_seed, seeded_normal

_PURPOSE = 1


class GaussianState(NamedTuple):
    """State of `SeededGaussianQuery`: all that the next round's noise depends on."""

    clip_norm: tf.Tensor  # of the next round
    last_clip_norm: tf.Tensor  # of the round that ended, for measurements
    round: tf.Tensor  # int64, rounds done


class SeededGaussianQuery(tfp.SumAggregationDPQuery):
    """Clipped sum / denominator with reproducible Gaussian noise.

    Metrics: `clip_norm` (of the round that ended) and `noise_stddev` (of the sum).

    Args:
      clip_norm: L2 bound on a record; with `adaptive`, the first round's; > 0.
      noise_multiplier: Noise standard deviation / clip norm of the whole mechanism, >= 0.
      seed: Of the run, >= 0.
      denominator: What the noisy sum is divided by: the report goal for a mean, 1 for a sum. It
        must not depend on who took part.
      adaptive: How the clip norm follows a quantile; None keeps it.
    """

    def __init__(
        self,
        *,
        clip_norm: float,
        noise_multiplier: float,
        seed: int,
        denominator: float = 1.0,
        adaptive: AdaptiveClip | None = None,
    ):
        self._clip_norm = clip_norm
        self._noise_multiplier = noise_multiplier
        self._seed = seed
        self._denominator = denominator
        self._adaptive = adaptive
        self._delta_noise_multiplier = noise_multiplier
        if adaptive is not None:
            self._delta_noise_multiplier = delta_noise_multiplier(
                noise_multiplier, adaptive.count_stddev
            )

    def initial_global_state(self):
        """See base class."""
        clip_norm = tf.constant(self._clip_norm, tf.float32)
        return GaussianState(clip_norm, clip_norm, tf.constant(0, tf.int64))

    def derive_sample_params(self, global_state):
        """The clip norm, which goes to the clients."""
        return global_state.clip_norm

    def initial_sample_state(self, template=None):
        """Zeros shaped as a preprocessed record."""
        zeros = tf.nest.map_structure(lambda x: tf.zeros(x.shape, x.dtype), template)
        return (zeros, tf.constant(0.0)) if self._adaptive else zeros

    def preprocess_record(self, params, record):
        """On the client: clips; with an adaptive norm, adds whether the delta was inside it."""
        clipped, norm = clip_with_norm(record, params)
        if not self._adaptive:
            return clipped
        return clipped, tf.cast(norm <= tf.cast(params, tf.float64), tf.float32) - 0.5

    def get_noised_result(self, sample_state, global_state):
        """On the server: adds the round's noise to the sum and divides."""
        seed = fold_in(run_seed(self._seed, _PURPOSE), global_state.round)
        clip_norm, total = global_state.clip_norm, sample_state
        if self._adaptive:
            total, count = sample_state
            count_stddev = self._adaptive.count_stddev if self._noise_multiplier else 0.0
            count += seeded_normal(count, fold_in(seed, 1), count_stddev)
            clip_norm = self._adaptive.updated(clip_norm, count)
        noise = seeded_normal(total, fold_in(seed, 0), self._stddev(global_state.clip_norm))
        result = tf.nest.map_structure(
            lambda x, n: (x + n) / tf.cast(self._denominator, x.dtype), total, noise
        )
        new_state = GaussianState(clip_norm, global_state.clip_norm, global_state.round + 1)
        return result, new_state, dp_accounting.GaussianDpEvent(self._noise_multiplier)

    def derive_metrics(self, global_state):
        """See class."""
        return collections.OrderedDict(
            clip_norm=global_state.last_clip_norm,
            noise_stddev=self._stddev(global_state.last_clip_norm),
        )

    def _stddev(self, clip_norm):
        return clip_norm * self._delta_noise_multiplier
