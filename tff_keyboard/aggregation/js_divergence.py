"""Jensen-Shannon divergence between a layer's weights at the server and at a client.

    JS(p, q) = KL(p || m) / 2 + KL(q || m) / 2,   m = (p + q) / 2,   in [0, ln 2] nats
             = sum_i m_i f(r_i) / 2,   r = (p - q) / (p + q),
               f(r) = (1 + r) ln(1 + r) + (1 - r) ln(1 - r) = r^2 + r^4/6 + r^6/15 + r^8/28 + ...

The second form has no terms that cancel, so float32 does, at less than half of the time.

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
    """JS of each layer in nats, float32 [layers].

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
        both = p + q
        terms = both * _convex(tf.math.divide_no_nan(p - q, both))
        result.append(0.25 * tf.reduce_sum(terms))  # both / 2 is m
    return tf.stack(result)


def _distribution(tensors: Sequence[tf.Tensor], normalisation: str) -> tf.Tensor:
    weights = tf.concat([tf.reshape(x, [-1]) for x in tensors], 0)
    if normalisation == "softmax":
        # e^w magnifies the rounding of w by its size, which may be large.
        return tf.cast(tf.nn.softmax(tf.cast(weights, tf.float64)), tf.float32)
    absolute = tf.abs(weights)
    total = tf.reduce_sum(absolute)
    uniform = 1.0 / tf.cast(tf.size(absolute), tf.float32)
    return tf.where(total > 0, absolute / tf.where(total > 0, total, 1.0), uniform)


def _convex(r: tf.Tensor) -> tf.Tensor:
    """f(r) of the module docstring, to float32 precision, for r in [-1, 1]."""
    square = r * r
    series = square * (1.0 + square * (1.0 / 6.0 + square * (1.0 / 15.0 + square / 28.0)))
    exact = tf.math.xlog1py(1.0 + r, r) + tf.math.xlog1py(1.0 - r, -r)  # 0 ln 0 is 0
    return tf.where(square < 0.01, series, exact)
