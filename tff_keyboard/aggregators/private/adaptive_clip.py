"""A clip norm that privately follows a quantile of the clients' norms.

Each client adds one number to its clipped update, b - 1/2, where b is 1 if its norm was at most C.
From the noisy sum over clients the server computes

    C <- C * exp(-learning_rate * (unclipped fraction - target quantile))

The number has sensitivity 1/2 and separate noise. Update and count together are one Gaussian
mechanism with noise multiplier z if

    z_delta^-2 + (2 sigma_count)^-2 = z^-2

so the accounting of the run only needs z.

Clipping must not underestimate the norm of an update. A float32 sum may: a sum of n squares, in any
order, has a relative error of up to n u (u = 2^-24; Higham 2002, Accuracy and Stability of
Numerical Algorithms, section 4.2), 8 % for a million. A float64 sum is correct, but copies the
update twice, which takes a quarter of the time of a client with little text. Squares are therefore
summed in rows of 256 in float32, and the rows in float64:

    ||x||  <=  (1 + 1e-5) sqrt(sum_r s_r^2) + 1e-14,      s_r = float32 norm of row r

A row's norm is at most 128 u + u < 7.8e-6 too small, and squares that underflow contribute less
than 1e-14 together. If a row overflows, everything is summed in float64.

Source: Andrew et al. 2021, Algorithm 1 and Theorem 1, https://arxiv.org/abs/1905.03871.
"""

import dataclasses
import math
from collections.abc import Sequence

import tensorflow as tf

ROW = 256
SLACK = 1e-5
UNDERFLOW = 1e-14


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptiveClip:
    """The parameters of an adaptive private clip norm."""

    target_quantile: float  # share of clients that are not clipped, in (0, 1)
    # speed of the clip norm, > 0: a round changes it by at most exp(learning_rate)
    learning_rate: float
    count_stddev: float  # standard deviation of the noise on the count, in clients; > 0 under noise
    expected_clients: float  # clients per round; the fixed denominator of the fraction

    def updated(self, clip_norm: tf.Tensor, noisy_count: tf.Tensor) -> tf.Tensor:
        """Returns the next clip norm. `noisy_count` is the noisy sum of b - 1/2."""
        unclipped = noisy_count / self.expected_clients + 0.5
        unclipped = tf.clip_by_value(unclipped, 0.0, 1.0)  # noise may leave this range
        return clip_norm * tf.exp(-self.learning_rate * (unclipped - self.target_quantile))


def delta_noise_multiplier(noise_multiplier: float, count_stddev: float) -> float:
    """Returns z_delta for a mechanism with total noise multiplier z.

    >>> round(delta_noise_multiplier(1.0, 5.0), 4)
    1.005
    >>> delta_noise_multiplier(0.0, 0.0)
    0.0
    """
    if noise_multiplier == 0:
        return 0.0
    if noise_multiplier >= 2 * count_stddev:
        raise ValueError(
            f"Adaptive clipping at a noise multiplier of {noise_multiplier:g} needs noise of more "
            f"than {noise_multiplier / 2:g} clients on the count of unclipped clients, got "
            f"{count_stddev:g}. Raise `clipped_count_noise` or `clients_per_round`, or lower "
            "`noise_multiplier`."
        )
    return 1 / math.sqrt(noise_multiplier**-2 - (2 * count_stddev) ** -2)


def clip_with_norm(record, clip_norm: tf.Tensor):
    """Returns the record with an L2 norm of at most `clip_norm`, and its original norm.

    The norm is never below the true one and at most 2e-5 above it (see the module), so a
    record may be clipped slightly too short, but never left too long. A record inside the ball is
    returned unchanged.
    """
    flat = tf.nest.flatten(record)
    norm = l2_norm_upper_bound(flat)
    bound = tf.cast(clip_norm, tf.float64)
    # Slightly inside the ball, so that rounding factor and products to float32, by 2^-24 each,
    # cannot leave it.
    factor = bound * (1 - 1e-6) / tf.maximum(norm, 1e-300)

    def scaled() -> list[tf.Tensor]:
        return [x * tf.cast(factor, x.dtype) for x in flat]

    def scaled_far_down() -> list[tf.Tensor]:
        return [tf.cast(tf.cast(x, tf.float64) * factor, x.dtype) for x in flat]

    clipped = tf.cond(
        norm <= bound,
        lambda: flat,
        # Factors that float32 cannot represent to full precision are applied in float64.
        lambda: tf.cond(factor > 1e-30, scaled, scaled_far_down),
    )
    return tf.nest.pack_sequence_as(record, clipped), norm


def l2_norm_upper_bound(tensors: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns an upper bound on the L2 norm of all tensors together, float64 scalar.

    It is at most 1 + 2e-5 times the norm, plus 1e-14. `tensors` are float32 with known shapes, at
    least one, and finite.
    """
    squares = [tf.reduce_sum(tf.square(tf.cast(rows, tf.float64))) for rows in _row_norms(tensors)]
    norm = tf.sqrt(tf.add_n(squares))

    def in_float64() -> tf.Tensor:
        exact = [tf.reduce_sum(tf.square(tf.cast(x, tf.float64))) for x in tensors]
        return tf.sqrt(tf.add_n(exact))

    norm = tf.cond(tf.math.is_finite(norm), lambda: norm, in_float64)
    return norm * (1 + SLACK) + UNDERFLOW


def _row_norms(tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the norms of rows of up to 256 numbers, float32."""
    norms = []
    for tensor in tensors:
        flat = tf.reshape(tensor, [-1])
        full_rows = flat.shape[0] // ROW * ROW
        for part, width in ((flat[:full_rows], ROW), (flat[full_rows:], flat.shape[0] - full_rows)):
            if part.shape[0]:
                rows = tf.reshape(part, [-1, width])
                norms.append(tf.math.reduce_euclidean_norm(rows, axis=1))
    return norms
