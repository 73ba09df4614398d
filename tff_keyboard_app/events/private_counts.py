"""Sums of short vectors of counts over clients, with the noise of one Gaussian mechanism.

Each client's vector is clipped to an L2 norm C, so that one client changes the sum by at most C,
for any values that it reports. N(0, (z C)^2) is added to every sum once, on the server. A vector
with large counts is scaled as a whole, so the ratios of its counts do not change.

    released = sum_k v_k min(1, C / ||v_k||) + z C N(0, I)

It is the mean of the training rounds (`tff_keyboard/aggregators/private/private_mean.py`),
multiplied by the number of clients. Source of the mechanism: Dwork & Roth 2014, appendix A;
accounted as one round.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow_federated as tff

from tff_keyboard.aggregators.private.private_mean import PrivateMeanFactory
from tff_keyboard.algorithms.rounds.noised import with_noise
from tff_keyboard.privacy.accounting import accounting


class PrivateSums(NamedTuple):
    """Released sums and their guarantee."""

    sums: np.ndarray  # [counts] float64
    epsilon: float  # epsilon at `delta`, for adding or removing one client
    delta: float


def private_sums(
    vectors: Sequence[np.ndarray],
    *,
    clip_norm: float,
    noise_multiplier: float,
    delta: float,
    key: bytes,
) -> PrivateSums:
    """Returns noisy sums over clients, computed by a federated aggregation.

    Args:
      vectors: One vector per client, [counts] >= 0. A vector with a value that is not finite counts
        as zeros.
      clip_norm: C > 0.
      noise_multiplier: z > 0.
      delta: delta of the guarantee.
      key: Secret of 32 bytes for the noise. The same counts have the same noise, other counts have
        independent noise.

    Raises:
      ValueError: There is no client, or a number is out of range.
    """
    if not len(vectors):
        raise ValueError("There is no client to count.")
    if not noise_multiplier > 0:
        raise ValueError(f"`noise_multiplier` must be > 0, got {noise_multiplier}.")
    size = len(vectors[0])
    factory = PrivateMeanFactory(
        draws_noise=False,
        clip_norm=clip_norm,
        noise_multiplier=noise_multiplier,
        clients_per_round=len(vectors),
    )
    process = factory.create(tff.TensorType(np.float32, [size]))
    noised = with_noise(process, factory, rounds=1, key=key)
    with np.errstate(over="ignore"):
        float32_vectors = [np.asarray(v, np.float32) for v in vectors]
    clients = [v if np.isfinite(v).all() else np.zeros_like(v) for v in float32_vectors]
    output = noised.next(noised.initialize(), clients)
    guarantee = accounting.unsampled_gaussian(
        noise_multiplier=noise_multiplier, participations=1, delta=delta
    )
    sums = np.asarray(output.result, np.float64) * len(vectors)
    return PrivateSums(sums, guarantee.epsilon, guarantee.delta)
