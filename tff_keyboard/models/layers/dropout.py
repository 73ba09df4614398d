"""Dropout that a resumed run repeats bit for bit.

A stateful generator inside a client's graph would start anew in each process. Here the mask depends
only on the batch and on a trained weight. It therefore differs from step to step and from client to
client, and is the same when a round is computed again.

Source: Srivastava et al. 2014, inverted form (kept values are divided by the keep rate).
"""

import tensorflow as tf

# Options of models that only change their training.
RATES = ("dropout", "embedding_dropout", "output_dropout")


def check_rate(rate: float, name: str = "dropout") -> None:
    """Raises `ValueError` unless 0 <= rate < 1."""
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"`model.{name}` must be in [0, 1), got {rate}.")


def dropout(
    values: tf.Tensor, rate: float, ids: tf.Tensor, weight: tf.Tensor, *, salt: int
) -> tf.Tensor:
    """Sets each entry of `values` to zero with probability `rate`, and scales up the others.

    Args:
      values: Any shape, float32.
      rate: In [0, 1).
      ids: The batch, int32 with at least one entry: one half of the key.
      weight: A trained float32 weight: the other half of the key.
      salt: Distinguishes several masks in one step.
    """
    if rate == 0.0:
        return values
    flat = tf.reshape(ids, [-1])
    places = tf.range(1, tf.size(flat) + 1)
    # int32 arithmetic wraps around; only determinism and spread matter here.
    of_batch = tf.reduce_sum(flat * places * 1_000_003) + salt
    of_weight = tf.reduce_sum(tf.bitcast(tf.stop_gradient(weight), tf.int32))
    key = tf.stack([of_batch, of_weight])
    mask = tf.random.stateless_uniform(tf.shape(values), key) >= rate
    return tf.where(mask, values / (1.0 - rate), 0.0)
