"""Initial weights that depend only on (seed, name, shape), in any process, graph or order.

Seed None means zeros, for models whose weights are assigned before they are used. A federated
client builds its model anew in every round and overwrites the weights at once.
"""

import math
import zlib
from collections.abc import Callable, Sequence

import tensorflow as tf


def uniform(limit: float, *, seed: int | None, name: str) -> Callable[..., tf.Tensor]:
    """Returns an initialiser that is uniform in [-limit, limit), keyed by seed and name."""

    def initialise(shape, dtype=tf.float32, **_):
        if seed is None:
            return tf.zeros(shape, dtype)
        key = [seed % 2**31, zlib.crc32(name.encode()) % 2**31]
        return tf.random.stateless_uniform(shape, key, -limit, limit, dtype)

    return initialise


def glorot(fan_in: int, fan_out: int, *, seed: int | None, name: str) -> Callable[..., tf.Tensor]:
    """Returns the initialiser of Glorot & Bengio 2010, eq. 16, for **one** gate.

    Gates in the same matrix do not add to the fan.
    """
    return uniform(math.sqrt(6.0 / (fan_in + fan_out)), seed=seed, name=name)


def per_gate_constants(units: int, values: Sequence[float]) -> Callable[..., tf.Tensor]:
    """Returns an initialiser for a bias with one value per gate of `units` entries."""

    def initialise(shape, dtype=tf.float32, **_):
        del shape  # the shape is [len(values) * units]
        return tf.repeat(tf.constant(values, dtype), units)

    return initialise
