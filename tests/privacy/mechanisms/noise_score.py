"""The score of a Toeplitz mechanism, from its columns."""

import numpy as np

from tff_keyboard.privacy.mechanisms import toeplitz

# Gboard's first launch with a formal guarantee (Xu et al. 2023).
GBOARD = {"rounds": 2000, "min_separation": 313, "max_participations": 6}


def score(noise, error, *, rounds, min_separation, max_participations, momentum=0.0):
    """Returns error * S."""
    workload = toeplitz.prefix_sums(rounds, momentum=momentum)
    variances = toeplitz.iterate_variances(noise.inverse(rounds), workload)
    squared = toeplitz.sensitivity_squared(
        noise.column(rounds),
        rounds=rounds,
        min_separation=min_separation,
        max_participations=max_participations,
    )
    return np.sqrt(toeplitz.reduced(variances, error) * squared)
