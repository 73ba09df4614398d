"""Lilliefors' test of an exponential distribution with unknown mean.

SciPy has it from 1.10 on (`goodness_of_fit`). TFF pins 1.9.3, which has `monte_carlo_test`.

Source: Lilliefors 1969 (JASA 64).
"""

import numpy as np
from scipy import stats

TRIALS = 2000  # simulated samples for a p-value

_CHUNK = 1_000_000  # simulated values in memory at a time


def lilliefors_exponential(
    values: np.ndarray, *, seed: int, trials: int = TRIALS
) -> tuple[float, float]:
    """Tests whether `values` [k] >= 0 come from an exponential distribution of unknown mean.

    The statistic is Kolmogorov's distance to the exponential distribution with the sample's own
    mean. That mean makes the fit closer than Kolmogorov's tables suppose. Therefore the p-value
    comes from `trials` simulated exponential samples of the same size, with estimated means too; it
    is at least 1 / (trials + 1).

    Returns:
      `(statistic in [0, 1], p-value in [0, 1])`; `(1.0, 0.0)` if all values are 0.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("`values` must be a list of at least one finite value >= 0.")
    if trials < 1:
        raise ValueError(f"`trials` must be >= 1, got {trials}.")
    if not values.any():
        return 1.0, 0.0
    result = stats.monte_carlo_test(
        values,
        np.random.default_rng(seed).standard_exponential,
        _exponential_distance,
        vectorized=True,
        n_resamples=trials,
        batch=max(1, _CHUNK // len(values)),
        alternative="greater",
    )
    return float(result.statistic), float(result.pvalue)


def _exponential_distance(samples: np.ndarray, axis: int = -1) -> np.ndarray:
    """Returns Kolmogorov's distances [...] of samples [..., k] to exponential distributions.

    Each distribution has the mean of its sample. `axis` is the last one.
    """
    size = samples.shape[axis]
    means = samples.mean(axis=axis, keepdims=True)
    law = -np.expm1(-np.sort(samples / means, axis=axis))
    steps = np.arange(size + 1) / size
    return np.maximum(steps[1:] - law, law - steps[:-1]).max(axis=axis)
