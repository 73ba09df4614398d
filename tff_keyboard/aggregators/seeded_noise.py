"""Reproducible randomness inside TFF's graphs, for uses without a privacy guarantee.

Client noise (FedAtt's eq. 6) and random rounding depend only on (seed, round), so a resumed run
repeats its bits. The generator is Philox 4x32: fast and identical on every machine, but not
cryptographic, and its normals end at 5.678 standard deviations. The privacy mechanisms use another
source of noise (`host_noise.py`).
"""

from typing import Any

import tensorflow as tf

_ALGORITHM = "philox"  # named, because "auto_select" depends on the device


def fold_in(seed: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    """Returns a new seed, [2] int64, from a seed and an integer. The seeds are unrelated."""
    return tf.random.experimental.stateless_fold_in(
        tf.cast(seed, tf.int64), tf.cast(data, tf.int64), alg=_ALGORITHM
    )


def run_seed(seed: int, purpose: int) -> tf.Tensor:
    """Returns the seed of one purpose within a run. Purposes never share a stream."""
    return tf.constant([seed, purpose], tf.int64)


def client_digest(value: Any) -> tf.Tensor:
    """Returns 64 bits that identify a client in a round: the FarmHash64 of its update, int64.

    TFF gives a client neither a name nor a position, but ties must be resolved equally on one
    worker and on several, and a client's own randomness must be the same when a round is repeated
    and differ from other clients'. Clients with equal updates share a digest.
    """
    parts = [
        tf.raw_ops.Fingerprint(data=tf.reshape(x, [1, -1]), method="farmhash64")  # [1, 8] uint8
        for x in tf.nest.flatten(value)
    ]
    whole = tf.raw_ops.Fingerprint(data=tf.concat(parts, axis=1), method="farmhash64")
    return tf.bitcast(whole[0], tf.int64)


def seeded_normal(specs: Any, seed: tf.Tensor, stddev: tf.Tensor) -> Any:
    """Returns N(0, stddev^2) for each tensor of `specs`, independent across tensors and seeds.

    Args:
      specs: A structure of tensors or `tf.TensorSpec`s with static shapes.
      seed: [2] int64.
      stddev: Scalar >= 0; 0 gives exactly 0.
    """
    flat = tf.nest.flatten(specs)
    noise = [
        tf.cast(stddev, x.dtype)
        * tf.random.stateless_normal(x.shape, fold_in(seed, i), dtype=x.dtype, alg=_ALGORITHM)
        for i, x in enumerate(flat)
    ]
    return tf.nest.pack_sequence_as(specs, noise)
