"""Jensen-Shannon divergence between a layer's weights at the server and at a client.

    JS(p, q) = KL(p || m) / 2 + KL(q || m) / 2,   m = (p + q) / 2,   in [0, ln 2] nats

Elementwise operations on a whole model wait for memory. Layers are therefore processed in pieces
that stay in a core's cache, and the client's weights are computed piece by piece, too.

Weights have signs and do not sum to 1, and the FedMed paper does not define how they become
distributions. Here p_i = |w_i| / sum |w|, a weight's share of the layer's mass. This divergence
sees the changes of small models: on a trained client it is 1e-5 to 0.3, depending on the layer. It
does not see a change of sign. A softmax of weights near 0 would give about 1/n for all of them, and
FedMed would be a plain mean.

Source: Wu, Liang & Wang 2020, eq. 2, https://doi.org/10.3390/s20144048.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tff_keyboard.aggregators.layers import Layer

_PIECE = 2**15  # elements: 128 kB per tensor, and about 6 tensors fit a core's cache


def js_divergences_of_update(server: Any, update: Any, layers: Sequence[Layer]) -> tf.Tensor:
    """Returns the JS of each layer between a server's and a client's weights, in nats, [layers].

    The client's weights are server - update. Two layers of zeros are equal (0). Weights that are
    not finite give NaN or infinity.
    """
    flat_server, flat_update = tf.nest.flatten(server), tf.nest.flatten(update)
    result = []
    for layer in layers:
        ours = [tf.reshape(flat_server[i], [-1]) for i in layer.positions]
        updates = [tf.reshape(flat_update[i], [-1]) for i in layer.positions]
        result.append(_divergence_of_shares(ours, updates))
    return tf.stack(result)


def _divergence_of_shares(ours: list[tf.Tensor], updates: list[tf.Tensor]) -> tf.Tensor:
    """Returns JS of |ours| / sum |ours| and |theirs| / sum |theirs|; zeros are uniform."""
    size = float(sum(x.shape[0] for x in ours))

    def mass(a, b):
        return tf.stack([tf.reduce_sum(tf.abs(a)), tf.reduce_sum(tf.abs(a - b))])

    masses = _sum_over_pieces(mass, ours, updates)
    are_zero = tf.equal(masses, 0.0)
    each = tf.cast(are_zero, tf.float32)  # if all weights are 0, each counts as 1
    masses += each * size
    scale = masses[0] / masses[1]

    def total(add_each: bool) -> tf.Tensor:
        def twice_js(a, b):  # multiplied by `masses[0]`
            p, q = tf.abs(a), tf.abs(a - b)
            if add_each:
                p, q = p + each[0], q + each[1]
            return _twice_js(p, q * scale)

        return _sum_over_pieces(twice_js, ours, updates)

    twice = tf.cond(tf.reduce_any(are_zero), lambda: total(True), lambda: total(False))
    divergence = 0.5 * twice / masses[0]
    return tf.where(divergence < 0, 0.0, divergence)  # rounding can give < 0; NaN stays


def _twice_js(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    """Returns the sum of p ln(p / m) + q ln(q / m) over [n] elements >= 0. 0 ln 0 is 0."""
    middle = 0.5 * (p + q)
    p_terms = tf.math.xlogy(p, tf.math.xdivy(p, middle))
    q_terms = tf.math.xlogy(q, tf.math.xdivy(q, middle))
    return tf.reduce_sum(p_terms + q_terms)


def _sum_over_pieces(
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    ours: Sequence[tf.Tensor],
    theirs: Sequence[tf.Tensor],
) -> tf.Tensor:
    """Returns the sum of `function(piece of ours, piece of theirs)` over tensors [n], n known."""
    totals = []
    for a, b in zip(ours, theirs, strict=True):
        pieces = a.shape[0] // _PIECE

        def add_piece(i, total, a=a, b=b):
            piece = slice(i * _PIECE, (i + 1) * _PIECE)
            return i + 1, total + function(a[piece], b[piece])

        total = function(a[pieces * _PIECE :], b[pieces * _PIECE :])
        if pieces:
            _, total = tf.while_loop(lambda i, _, end=pieces: i < end, add_piece, (0, total))
        totals.append(total)
    return tf.add_n(totals)
