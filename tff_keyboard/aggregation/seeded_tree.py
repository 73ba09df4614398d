"""DP-FTRL: noise by tree aggregation, keyed by (seed, draw), with restarts.

The running sum of clipped deltas is released with the noise of the tree nodes that cover it; each
round hands on the difference to the round before, so that plain SGD (with momentum) on the server
adds them up again:

    result_t = (sum_k clip(delta_k, C) + noise(t) - noise(t - 1)) / denominator

where noise(t) is the tree's noise of the first t rounds, N(0, (z C)^2) a node, combined as by
Honaker. No random sampling of people is needed for the guarantee; what counts is how often and
how closely a person may join (`privacy/tree_sensitivity.py`). A restart begins a new tree; only
then may an adaptive clip norm change, because a tree's nodes must share one sensitivity.

`tensorflow_privacy` keeps the tree; clipping, the noise and the clip norm are here, since its
adaptive tree draws the count's noise from the clock and so could not be resumed exactly.

Sources: Kairouz et al. 2021, https://arxiv.org/abs/2103.00039; Honaker 2015, "Efficient use of
differentially private binary trees"; restarts with adaptive clipping: Xu et al. 2023,
https://arxiv.org/abs/2305.18465.
"""

import collections
from typing import Any, NamedTuple

import dp_accounting
import tensorflow as tf
import tensorflow_privacy as tfp
from tensorflow_privacy.privacy.dp_query import tree_aggregation

from tff_keyboard.aggregation.adaptive_clip import (
    AdaptiveClip,
    clip_with_norm,
    delta_noise_multiplier,
)
from tff_keyboard.aggregation.seeded_noise import fold_in, run_seed, seeded_normal

_PURPOSE = 2


class NodeNoise(tree_aggregation.ValueGenerator):
    """Noise of one tree node: draw number n is a pure function of (seed, n).

    State: `(draws, delta_stddev)`. A value is `(noise like a delta, noise of the count)`.
    """

    def __init__(self, specs: Any, delta_stddev: float, count_stddev: float, seed: int):
        self._specs = specs
        self._delta_stddev = delta_stddev
        self._count_stddev = count_stddev
        self._seed = seed

    def initialize(self):
        """No draws yet."""
        return tf.constant(0, tf.int64), tf.constant(self._delta_stddev, tf.float32)

    def next(self, state):
        """The next node's noise."""
        draws, delta_stddev = state
        seed = fold_in(run_seed(self._seed, _PURPOSE), draws)
        noise = seeded_normal(self._specs, fold_in(seed, 0), delta_stddev)
        count_noise = seeded_normal(
            tf.TensorSpec([], tf.float32), fold_in(seed, 1), self._count_stddev
        )
        return (noise, count_noise), (draws + 1, delta_stddev)


class TreeQueryState(NamedTuple):
    """State of `SeededTreeQuery`."""

    clip_norm: tf.Tensor  # of this tree
    estimate: tf.Tensor  # the quantile followed meanwhile; clip norm of the next tree
    last_clip_norm: tf.Tensor
    leaf: tf.Tensor  # int32, rounds done in this tree
    tree: Any
    previous_noise: Any


class SeededTreeQuery(tfp.SumAggregationDPQuery):
    """Clipped sum / denominator with tree noise that a resumed run repeats.

    Metrics: `clip_norm` (of the round that ended) and `noise_stddev` (of one node).

    Args:
      specs: `tf.TensorSpec`s of a delta (float32: tensorflow_privacy's buffers are).
      clip_norm: L2 bound on a record; with `adaptive`, the first tree's; > 0.
      noise_multiplier: Noise standard deviation of a node / clip norm, >= 0.
      seed: Of the run, >= 0.
      denominator: What the noisy sum is divided by; must not depend on who took part.
      restart_rounds: Rounds of a tree; 0 means one tree.
      adaptive: How the clip norm follows a quantile; None keeps it.

    Raises:
      ValueError: An adaptive clip norm without restarts.
    """

    def __init__(
        self,
        *,
        specs: Any,
        clip_norm: float,
        noise_multiplier: float,
        seed: int,
        denominator: float,
        restart_rounds: int = 0,
        adaptive: AdaptiveClip | None = None,
    ):
        if adaptive is not None and restart_rounds < 1:
            raise ValueError(
                f"`restart_rounds` must be >= 1 with an adaptive clip norm, got {restart_rounds}: "
                "the norm may only change between trees."
            )
        count_stddev = 0.0
        self._delta_noise_multiplier = noise_multiplier
        if adaptive is not None and noise_multiplier:
            count_stddev = adaptive.count_stddev
            self._delta_noise_multiplier = delta_noise_multiplier(noise_multiplier, count_stddev)
        self._clip_norm = clip_norm
        self._denominator = denominator
        self._restart_rounds = restart_rounds
        self._adaptive = adaptive
        self._specs = specs
        self._aggregator = tree_aggregation.EfficientTreeAggregator(
            NodeNoise(specs, clip_norm * self._delta_noise_multiplier, count_stddev, seed)
        )

    def initial_global_state(self):
        """See base class."""
        clip_norm = tf.constant(self._clip_norm, tf.float32)
        return TreeQueryState(
            clip_norm=clip_norm,
            estimate=clip_norm,
            last_clip_norm=clip_norm,
            leaf=tf.constant(0),
            tree=self._aggregator.init_state(),
            previous_noise=self._no_noise(),
        )

    def derive_sample_params(self, global_state):
        """The clip norm and the estimate, which go to the clients."""
        return global_state.clip_norm, global_state.estimate

    def initial_sample_state(self, template=None):
        """Zeros shaped as a preprocessed record."""
        zeros = tf.nest.map_structure(lambda x: tf.zeros(x.shape, x.dtype), template)
        return zeros, tf.constant(0.0)

    def preprocess_record(self, params, record):
        """On the client: the clipped delta, and whether its norm is at most the estimate."""
        clip_norm, estimate = params
        clipped, norm = clip_with_norm(record, clip_norm)
        return clipped, tf.cast(norm <= tf.cast(estimate, tf.float64), tf.float32) - 0.5

    @tf.function
    def get_noised_result(self, sample_state, global_state):
        """On the server: the round's share of the noisy running sum."""
        state = global_state
        noise, tree = self._aggregator.get_cumsum_and_update(state.tree)
        total, count = tf.nest.map_structure(
            lambda x, now, before: x + now - before, sample_state, noise, state.previous_noise
        )
        estimate, clip_norm, leaf = state.estimate, state.clip_norm, state.leaf + 1
        if self._adaptive is not None:
            estimate = self._adaptive.updated(estimate, count)
        if self._restart_rounds and tf.greater_equal(leaf, self._restart_rounds):
            draws, _ = tree.value_generator_state
            clip_norm, leaf, noise = estimate, tf.zeros_like(leaf), self._no_noise()
            stddev = clip_norm * self._delta_noise_multiplier
            tree = self._aggregator.reset_state(
                tree_aggregation.TreeState(
                    level_buffer=tree.level_buffer,
                    level_buffer_idx=tree.level_buffer_idx,
                    value_generator_state=(draws, stddev),
                )
            )
        result = tf.nest.map_structure(lambda x: x / tf.cast(self._denominator, x.dtype), total)
        new_state = TreeQueryState(clip_norm, estimate, state.clip_norm, leaf, tree, noise)
        # No DpEvent says "tree with participation limits"; the ledger keeps what is needed.
        return result, new_state, dp_accounting.UnsupportedDpEvent()

    def derive_metrics(self, global_state):
        """See class."""
        return collections.OrderedDict(
            clip_norm=global_state.last_clip_norm,
            noise_stddev=global_state.last_clip_norm * self._delta_noise_multiplier,
        )

    def _no_noise(self):
        zeros = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), self._specs)
        return zeros, tf.constant(0.0)
