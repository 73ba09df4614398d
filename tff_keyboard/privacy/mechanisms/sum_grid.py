"""The grid of a secure sum, and the reason why rounding to it costs no privacy.

Devices clip an update to the L2 norm C, divide it by a step, and round each number towards zero.
They add masks modulo 2^bits, and the server gets the sum of the integers. Then it adds noise:

    result = (sum_k trunc(clip(delta_k, C) / step) + z C w_t / step) * step / denominator

Rounding towards zero lengthens no vector, and `bits` is so large that no sum wraps around, so one
client changes the sum of integers by an L2 norm of at most C / step. The noise has standard
deviation z C / step in the same unit. The ratio is 1 / z, as without secure sums: rounding adds 0
to the sensitivity, and epsilon is the same. The sum is an integer below 2^53, so it is exact in
float64 until the noise is added.

The step of a discrete Gaussian is a fraction of its noise, because its draws are on the grid, too.
The noise of all other mechanisms is continuous, and their step is a fraction of C. Rounding
towards zero moves every update a little, always in the same direction. Correlated noise grows so
slowly with the number of rounds that a step as large as a fraction of the noise could add up.
"""

from tff_keyboard.privacy.mechanisms.discrete_normal import BITS

STEPS = float(2**BITS)  # per clip norm, or per standard deviation of discrete noise


def sum_step(*, clip_norm: float, noise_multiplier: float, is_discrete: bool) -> float:
    """Returns the step of the grid in weight units.

    >>> sum_step(clip_norm=0.5, noise_multiplier=4.0, is_discrete=False) * 2**20
    0.5
    >>> sum_step(clip_norm=0.5, noise_multiplier=4.0, is_discrete=True) * 2**20
    2.0

    Args:
      clip_norm: L2 bound on an update, in weight units; > 0.
      noise_multiplier: Standard deviation of the noise / clip norm; > 0 if `is_discrete`.
      is_discrete: Whether the noise is discrete.
    """
    return (noise_multiplier * clip_norm if is_discrete else clip_norm) / STEPS


def steps_per_stddev(noise_multiplier: float, *, is_discrete: bool) -> float:
    """Returns the standard deviation of the noise in steps of the grid.

    Args: as for `sum_step`.
    """
    return STEPS if is_discrete else noise_multiplier * STEPS
