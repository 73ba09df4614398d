"""Sixty-four bits that name a client in a round: the hash of the delta it sends.

TFF gives a client no name and no order, yet ties must break the same way on one worker or on
several, and a client's own randomness must be the same when a round is run again and differ from
its neighbours'. The bits of the delta are all of that: clients with equal deltas share a digest,
and for them it makes no difference. Not a cryptographic hash (FarmHash64).
"""

from typing import Any

import tensorflow as tf


def client_digest(value: Any) -> tf.Tensor:
    """int64 scalar, a pure function of the bits of the tensors of `value`, in order."""
    parts = [
        tf.raw_ops.Fingerprint(data=tf.reshape(x, [1, -1]), method="farmhash64")  # [1, 8] uint8
        for x in tf.nest.flatten(value)
    ]
    whole = tf.raw_ops.Fingerprint(data=tf.concat(parts, axis=1), method="farmhash64")
    return tf.bitcast(whole[0], tf.int64)
