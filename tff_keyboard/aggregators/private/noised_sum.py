"""The query of all private aggregators: clip on clients, sum, add the server's noise.

    result = (sum_k clip(delta_k, C) + z C w_t) / denominator

w_t is the round's noise in units of one draw: independent, from a tree, or correlated. The server
puts it into the query's state before each round (`algorithms/rounds/noised.py`), computed from the
run's key in double precision (`privacy/mechanisms/noise_streams.py`), and the query removes it
again. One graph therefore serves every mechanism, and neither key nor draws nor noise buffers are
in a checkpoint. A round without its own noise never releases a sum: independent noise is drawn by
TensorFlow (`draws_noise`), and any other round fails.

With an adaptive clip norm each record has one more number, noised by the last number of w_t.

This is a `tensorflow_privacy` query, run by `tff.aggregators.DifferentiallyPrivateFactory`. The
record aggregation (a plain or a secure sum) is TFF's. The sum is in float32, noise is added in
float64, and the result is rounded to float32 once, after the noise.

Sources: McMahan et al. 2018, https://arxiv.org/abs/1710.06963; adaptive clipping: see
`adaptive_clip.py`.
"""

import collections
from typing import Any, NamedTuple

import dp_accounting
import numpy as np
import tensorflow as tf
import tensorflow_privacy as tfp

from tff_keyboard.aggregators.private.adaptive_clip import (
    AdaptiveClip,
    clip_with_norm,
    delta_noise_multiplier,
)

EMPTY_ROUND = -1
_NO_NOISE = (
    "This round has no privacy noise. Wrap the process with `tk.algorithms.with_noise(process, "
    "factory, rounds=...)`."
)


class NoiseSlot(NamedTuple):
    """The slot for a round's noise, empty between rounds."""

    round: Any  # int64, its round (number of rounds before it); -1 if empty
    # [size] float64, in units of one draw: the record's tensors in order, row-major, then one for
    # the count of unclipped clients if the clip norm adapts. [0] without noise
    values: Any


class NoisedSumState(NamedTuple):
    """State of `NoisedSumQuery`."""

    clip_norm: tf.Tensor  # of the next round
    estimate: tf.Tensor  # the current estimate of the quantile
    last_clip_norm: tf.Tensor  # of the last round, for measurements
    round: tf.Tensor  # int64, finished rounds
    slot: NoiseSlot


class NoisedSumQuery(tfp.SumAggregationDPQuery):
    """Clipped sum / denominator, with noise from outside.

    Metrics: `clip_norm` (of the last round) and `noise_stddev` (of one draw).

    Args:
      clip_norm: L2 bound on a record, > 0; with `adaptive`, the first one.
      noise_multiplier: Standard deviation of one draw / clip norm, >= 0; 0 means no noise.
      event: The event of a round, for accounting.
      denominator: Divides the noisy sum: the report goal for a mean, 1 for a sum. It must not
        depend on the participants.
      adaptive: How the clip norm follows a quantile; None keeps it constant.
      steps_per_stddev: If not 0, records are rounded towards zero, which lengthens none, to
        multiples of the noise's standard deviation / `steps_per_stddev`, and summed as integers
        (`privacy/mechanisms/sum_grid.py`). With discrete noise, draws must be multiples of
        1 / `steps_per_stddev`. Not with `adaptive`; requires noise.
      draws_noise: Whether TensorFlow draws independent normal noise in a round whose state contains
        none. If False, such a round fails. TensorFlow's generator is not cryptographic, and no key
        repeats the draws.
      takes_sums: Whether records are parts of a sum of clipped updates instead of updates, in whole
        steps of the grid, as a secure sum returns it. Nothing is clipped then. Requires
        `steps_per_stddev`.
    """

    def __init__(
        self,
        *,
        specs: Any,
        clip_norm: float,
        noise_multiplier: float,
        event: dp_accounting.DpEvent,
        denominator: float = 1.0,
        adaptive: AdaptiveClip | None = None,
        steps_per_stddev: float = 0.0,
        draws_noise: bool = False,
        takes_sums: bool = False,
    ):
        self._specs = tf.nest.flatten(specs)
        self._clip_norm = clip_norm
        self._event = event
        self._denominator = denominator
        self._adaptive = adaptive
        self._draws_noise = draws_noise
        self._takes_sums = takes_sums
        self._grid = steps_per_stddev
        self._count_stddev = 0.0
        self._multiplier = noise_multiplier
        if adaptive is not None and noise_multiplier:
            self._count_stddev = adaptive.count_stddev
            self._multiplier = delta_noise_multiplier(noise_multiplier, self._count_stddev)
        self._size = 0
        if noise_multiplier:
            self._size = sum(_elements(spec) for spec in self._specs) + (adaptive is not None)

    def initial_global_state(self):
        """See base class. The slot is empty."""
        clip_norm = tf.constant(self._clip_norm, tf.float32)
        return NoisedSumState(
            clip_norm, clip_norm, clip_norm, tf.constant(0, tf.int64), self._empty_slot()
        )

    def derive_sample_params(self, global_state):
        """Returns the clip norm and the estimate, which are sent to the clients."""
        return global_state.clip_norm, global_state.estimate

    def initial_sample_state(self, template=None):
        """Returns zeros with the shapes of a preprocessed record."""
        zeros = tf.nest.map_structure(
            lambda x: tf.zeros(x.shape, tf.int64 if self._grid else x.dtype), template
        )
        return (zeros, tf.constant(0.0)) if self._adaptive else zeros

    def preprocess_record(self, params, record):
        """Clips on the client. With an adaptive norm, adds whether the update was inside it."""
        if self._takes_sums:
            return tf.nest.map_structure(lambda x: tf.cast(x, tf.int64), record)
        clip_norm, estimate = params
        clipped, norm = clip_with_norm(record, clip_norm)
        is_sound = tf.math.is_finite(norm)  # otherwise it has no direction
        clipped = tf.nest.map_structure(lambda x: tf.where(is_sound, x, tf.zeros_like(x)), clipped)
        if self._grid:
            steps = self._grid / self._stddev(clip_norm)
            # A cast to integers rounds towards zero.
            return tf.nest.map_structure(
                lambda x: tf.cast(tf.cast(x, tf.float64) * steps, tf.int64), clipped
            )
        if not self._adaptive:
            return clipped
        return clipped, tf.cast(norm <= tf.cast(estimate, tf.float64), tf.float32) - 0.5

    def get_noised_result(self, sample_state, global_state):
        """Adds the slot's noise to the sum at the server, and divides."""
        state, total = global_state, sample_state
        noise = self._noise_of_round(state) if self._size else state.slot.values
        clip_norm, estimate = state.clip_norm, state.estimate
        if self._adaptive is not None:
            total, count = sample_state
            if self._size:
                count += tf.cast(self._count_stddev * noise[-1], count.dtype)
            estimate = self._adaptive.updated(estimate, count)
            clip_norm = estimate
        result = self._noised(total, noise, self._stddev(state.clip_norm))
        new_state = NoisedSumState(
            clip_norm, estimate, state.clip_norm, state.round + 1, self._empty_slot()
        )
        return result, new_state, self._event

    def derive_metrics(self, global_state):
        """See class."""
        clip_norm = global_state.last_clip_norm
        return collections.OrderedDict(
            clip_norm=clip_norm, noise_stddev=tf.cast(self._stddev(clip_norm), tf.float32)
        )

    def _noise_of_round(self, state: NoisedSumState) -> tf.Tensor:
        """Returns the slot's noise if it is for this round. Otherwise draws noise, or fails."""
        is_for_this_round = tf.equal(state.slot.round, state.round)
        if self._draws_noise:
            return tf.cond(
                is_for_this_round,
                lambda: state.slot.values,
                lambda: tf.random.normal([self._size], dtype=tf.float64),
            )
        with tf.control_dependencies([tf.debugging.Assert(is_for_this_round, [_NO_NOISE])]):
            return tf.identity(state.slot.values)

    def _noised(self, total: Any, noise: tf.Tensor, stddev: tf.Tensor) -> Any:
        """Returns (total + stddev * noise) / denominator, with the structure of `total`.

        Args:
          total: The sum of the clipped updates, in units of the grid if there is one.
          noise: Standard normal draws [size], in the order of the flat tensors.
          stddev: Standard deviation of the noise in the sum.
        """
        flat, start = [], 0
        for x, spec in zip(tf.nest.flatten(total), self._specs, strict=True):
            exact = tf.cast(x, tf.float64)
            if self._size:
                end = start + _elements(x)
                draws = tf.reshape(noise[start:end], x.shape)
                start = end
                if self._grid:  # integers, exact below 2^53
                    exact = (exact + self._grid * draws) * (stddev / self._grid)
                else:
                    exact += stddev * draws
            flat.append(tf.cast(exact / self._denominator, spec.dtype))
        return tf.nest.pack_sequence_as(total, flat)

    def _stddev(self, clip_norm: tf.Tensor) -> tf.Tensor:
        return tf.cast(clip_norm, tf.float64) * self._multiplier

    def _empty_slot(self) -> NoiseSlot:
        return NoiseSlot(tf.constant(EMPTY_ROUND, tf.int64), tf.zeros([self._size], tf.float64))


def _elements(spec: Any) -> int:
    return int(np.prod(spec.shape.as_list(), dtype=np.int64))
