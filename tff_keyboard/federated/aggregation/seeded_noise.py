"""Reproducible randomness inside TFF's graphs that no privacy claim rests on.

Client noise (FedAtt's eq. 6) and random rounding are pure functions of (seed, round), so that a
resumed run repeats its bits. The generator is Philox 4x32: fast, the same on every machine, not
cryptographic, and its normals end at 5.678 standard deviations. The privacy mechanisms take their
noise from elsewhere (`host_noise.py`).
"""

from typing import Any

import tensorflow as tf

_ALGORITHM = "philox"  # named, because "auto_select" depends on the device


def fold_in(seed: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    """A new seed ([2] int64) from a seed and an integer; unrelated for different integers."""
    return tf.random.experimental.stateless_fold_in(
        tf.cast(seed, tf.int64), tf.cast(data, tf.int64), alg=_ALGORITHM
    )


def run_seed(seed: int, purpose: int) -> tf.Tensor:
    """The seed of one purpose within a run; purposes never share a stream."""
    return tf.constant([seed, purpose], tf.int64)


def client_digest(value: Any) -> tf.Tensor:
    """Sixty-four bits that name a client in a round: the FarmHash64 of the tensors of its delta.

    TFF gives a client no name and no order, yet ties must break the same way on one worker or on
    several, and a client's own randomness must be the same when a round is run again and differ
    from its neighbours'. Clients with equal deltas share a digest, int64.
    """
    parts = [
        tf.raw_ops.Fingerprint(data=tf.reshape(x, [1, -1]), method="farmhash64")  # [1, 8] uint8
        for x in tf.nest.flatten(value)
    ]
    whole = tf.raw_ops.Fingerprint(data=tf.concat(parts, axis=1), method="farmhash64")
    return tf.bitcast(whole[0], tf.int64)


def seeded_normal(specs: Any, seed: tf.Tensor, stddev: tf.Tensor) -> Any:
    """N(0, stddev^2) for each tensor of `specs`, independent across tensors and seeds.

    `specs` is a structure of tensors or `tf.TensorSpec`s with static shapes; `stddev` a scalar >=
    0, of which 0 gives exactly 0.
    """
    flat = tf.nest.flatten(specs)
    noise = [
        tf.cast(stddev, x.dtype)
        * tf.random.stateless_normal(x.shape, fold_in(seed, i), dtype=x.dtype, alg=_ALGORITHM)
        for i, x in enumerate(flat)
    ]
    return tf.nest.pack_sequence_as(specs, noise)
