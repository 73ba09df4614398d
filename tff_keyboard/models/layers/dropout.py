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
    return _masked(values, rate, tf.stack([of_batch, of_weight]))


class Dropout(tf.keras.layers.Layer):
    """Dropout for a user's Keras model. A round that is computed again has the same masks.

        tff_keyboard.models.Dropout(0.2)  # in place of tf.keras.layers.Dropout(0.2)

    The mask depends on all entries of the inputs, and so on the batch and on the weights of the
    layers before.

    Args:
      rate: Probability that an entry is set to zero in training, in [0, 1).
      salt: Another value gives another mask of the same inputs.
    """

    def __init__(self, rate: float, *, salt: int = 0):
        super().__init__()
        check_rate(rate)
        self.rate, self.salt = rate, salt

    def call(self, inputs, training=None):
        """Returns the inputs; in training, a part of them is set to zero."""
        if not training:
            return inputs
        bits = tf.bitcast(tf.stop_gradient(inputs), tf.int32)
        # Positions are part of the sum, so that a permutation of the inputs has another mask.
        positions = tf.reshape(tf.range(1, tf.size(bits) + 1), tf.shape(bits))
        key = tf.stack([tf.reduce_sum(bits), tf.reduce_sum(bits * positions) + self.salt])
        return _masked(inputs, self.rate, key)


def _masked(values: tf.Tensor, rate: float, key: tf.Tensor) -> tf.Tensor:
    """Sets entries to zero by a mask that depends on `key`, [2] int32, and scales the others up."""
    mask = tf.random.stateless_uniform(tf.shape(values), key) >= rate
    return tf.where(mask, values / (1.0 - rate), 0.0)
