"""A softmax-weighted mean in one pass over clients, for scores of any size.

For each layer l the accumulator contains, over the clients k so far with score s_k,

    m = max s_k,   z = sum e^(s_k - m),   t = sum e^(s_k - m) (s_k - m),
    v = sum e^(s_k - m) delta_k

Two accumulators are merged by rescaling to the larger m. Then sum_k alpha_k delta_k = v / z with
alpha = softmax(s), and the entropy of alpha is log z - t / z. The memory does not grow with the
number of clients, merging is associative and commutative (up to rounding), and nothing overflows.
It is a single aggregation, not a maximum followed by a sum, which TFF could not distribute over
several workers.

Source: Milakov & Gimelshein 2018, https://arxiv.org/abs/1805.02867.
"""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.aggregators.layers import Layer, scale_layers

# The maximum over no clients: finite, and so small in size that differences are finite, too.
_LOWEST = np.finfo(np.float64).min / 4

Accumulator = collections.OrderedDict


def empty(value_specs: Any, num_layers: int) -> Accumulator:
    """Returns the accumulator without clients."""
    return collections.OrderedDict(
        maximum=tf.fill([num_layers], tf.constant(_LOWEST, tf.float64)),
        total=tf.zeros([num_layers], tf.float64),
        score_total=tf.zeros([num_layers], tf.float64),
        clients=tf.constant(0),
        value=tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), value_specs),
    )


def single(value: Any, scores: tf.Tensor, counts: tf.Tensor) -> Accumulator:
    """Returns the accumulator of one client, with finite `scores`, float64 [layers].

    If the bool scalar `counts` is false, the client is left out completely.
    """
    present = tf.fill(tf.shape(scores), tf.cast(counts, tf.float64))
    # Unlike `tf.where`, a condition does not copy the update of a client that counts.
    kept = tf.cond(counts, lambda: value, lambda: tf.nest.map_structure(tf.zeros_like, value))
    return collections.OrderedDict(
        maximum=tf.where(
            counts, scores, tf.fill(tf.shape(scores), tf.constant(_LOWEST, tf.float64))
        ),
        total=present,
        score_total=tf.zeros_like(scores),
        clients=tf.cast(counts, tf.int32),
        value=kept,
    )


def merge(a: Accumulator, b: Accumulator, layers: Sequence[Layer]) -> Accumulator:
    """Returns the accumulator of the clients in `a` and `b`."""
    maximum = tf.maximum(a["maximum"], b["maximum"])
    rescaled = [_rescaled(side, maximum, layers) for side in (a, b)]
    return collections.OrderedDict(
        maximum=maximum,
        total=rescaled[0][0] + rescaled[1][0],
        score_total=rescaled[0][1] + rescaled[1][1],
        clients=a["clients"] + b["clients"],
        value=tf.nest.map_structure(tf.add, rescaled[0][2], rescaled[1][2]),
    )


def _rescaled(side: Accumulator, maximum: tf.Tensor, layers: Sequence[Layer]):
    down = side["maximum"] - maximum  # <= 0; about -4.5e307 for a side without clients
    factor = tf.exp(down)
    # 0 * -4.5e307 is 0, as required: factor, total and score_total are 0 for such a side.
    score_total = factor * (side["score_total"] + side["total"] * down)
    return factor * side["total"], score_total, scale_layers(side["value"], layers, factor)


def weighted_mean(accumulator: Accumulator, layers: Sequence[Layer]) -> Any:
    """Returns sum_k alpha_k delta_k, or zeros if no client counted."""
    return scale_layers(
        accumulator["value"], layers, tf.math.reciprocal_no_nan(accumulator["total"])
    )


def attention_measurements(accumulator: Accumulator, layers: Sequence[Layer]) -> Any:
    """Returns each layer's entropy (nats), effective clients e^entropy, maximum weight and score.

    All are 0 if no client counted.
    """
    some = accumulator["clients"] > 0
    total = accumulator["total"]
    entropy = tf.math.log(tf.maximum(total, 1e-300)) - tf.math.divide_no_nan(
        accumulator["score_total"], total
    )
    entropy = tf.maximum(entropy, 0.0)  # rounding can give -0 if one client has all the weight
    nothing = tf.zeros_like(total)
    columns = collections.OrderedDict(
        entropy=tf.where(some, entropy, nothing),
        effective_clients=tf.where(some, tf.exp(entropy), nothing),
        maximum_weight=tf.math.reciprocal_no_nan(total),
        maximum_score=tf.where(some, accumulator["maximum"], nothing),
    )
    return collections.OrderedDict(
        (
            layer.name,
            collections.OrderedDict(
                (name, tf.cast(column[i], tf.float32)) for name, column in columns.items()
            ),
        )
        for i, layer in enumerate(layers)
    )
