"""Jensen-Shannon divergence between a layer's weights at the server and at a client.

    JS(p, q) = KL(p || m) / 2 + KL(q || m) / 2,   m = (p + q) / 2,   in [0, ln 2] nats

Weights have signs and do not sum to one; FedMed does not say how they become distributions. Two
readings are offered:

- "absolute" (default): p_i = |w_i| / sum |w|. A weight's share of the layer's mass. It sees small
  models' changes: on a trained client 1e-5 to 0.3, by layer. It does not see a change of sign.
- "softmax": p_i = e^(w_i) / sum e^w. Weights near 0 all get about 1/n, so JS is 1e-7 to 1e-3 and
  FedMed's weights are uniform to three digits: the rule is then a plain mean.

Source: Wu, Liang & Wang 2020, eqs. 3-5, https://doi.org/10.3390/s20144048.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tff_keyboard.aggregation.layers import Layer

NORMALISATIONS = ("absolute", "softmax")


def js_divergences(
    server: Any, client: Any, layers: Sequence[Layer], normalisation: str = "absolute"
) -> tf.Tensor:
    """JS of each layer in nats, float32 [layers]; computed in float64.

    Two layers of zeros are equal (0). Weights that are not finite give something that is not
    finite: guard before.

    Raises:
      ValueError: `normalisation` is unknown.
    """
    if normalisation not in NORMALISATIONS:
        raise ValueError(
            f"`normalisation` must be one of {', '.join(NORMALISATIONS)}; got {normalisation!r}."
        )
    flat_server, flat_client = tf.nest.flatten(server), tf.nest.flatten(client)
    result = []
    for layer in layers:
        p = _distribution([flat_server[i] for i in layer.positions], normalisation)
        q = _distribution([flat_client[i] for i in layer.positions], normalisation)
        middle = 0.5 * (p + q)
        js = 0.5 * (_kullback_leibler(p, middle) + _kullback_leibler(q, middle))
        result.append(tf.maximum(js, 0.0))  # rounding may leave -1e-17
    return tf.cast(tf.stack(result), tf.float32)


def _distribution(tensors: Sequence[tf.Tensor], normalisation: str) -> tf.Tensor:
    weights = tf.concat([tf.reshape(tf.cast(x, tf.float64), [-1]) for x in tensors], 0)
    if normalisation == "softmax":
        return tf.nn.softmax(weights)
    absolute = tf.abs(weights)
    total = tf.reduce_sum(absolute)
    uniform = tf.ones_like(absolute) / tf.cast(tf.size(absolute), tf.float64)
    return tf.where(total > 0, absolute / tf.where(total > 0, total, 1.0), uniform)


def _kullback_leibler(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    ratio = tf.where(p > 0, p / tf.where(p > 0, q, tf.ones_like(q)), tf.ones_like(p))
    return tf.reduce_sum(p * tf.math.log(ratio))
