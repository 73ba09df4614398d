"""Jensen-Shannon divergence between a layer's weights at the server and at a client.

    JS(p, q) = KL(p || m) / 2 + KL(q || m) / 2,   m = (p + q) / 2,   in [0, ln 2] nats

In float32 the rounding of p / m leaves an error of about 1e-7 / sqrt(weights of the layer) nats,
far below what FedMed's exp(JS) shows.

Elementwise operations on a whole model wait for memory, so layers are worked on in pieces that
stay in a core's cache; the client's weights, too, are made piece by piece.

Weights have signs and do not sum to one; FedMed does not say how they become distributions. Two
readings are offered:

- "absolute" (default): p_i = |w_i| / sum |w|. A weight's share of the layer's mass. It sees small
  models' changes: on a trained client 1e-5 to 0.3, by layer. It does not see a change of sign.
- "softmax": p_i = e^(w_i) / sum e^w. Weights near 0 all get about 1/n, so JS is 1e-7 to 1e-3 and
  FedMed's weights are uniform to three digits: the rule is then a plain mean.

Source: Wu, Liang & Wang 2020, eq. 2, https://doi.org/10.3390/s20144048.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tff_keyboard.aggregation.layers import Layer

NORMALISATIONS = ("absolute", "softmax")
_PIECE = 2**15  # elements: 128 kB a tensor, half a dozen of which fit a core's cache

_Second: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # of a pair, from what is given


def js_divergences(
    server: Any, client: Any, layers: Sequence[Layer], normalisation: str = "absolute"
) -> tf.Tensor:
    """JS of each layer in nats, float32 [layers].

    Two layers of zeros are equal (0). Weights that are not finite give something that is not
    finite: guard before.

    Raises:
      ValueError: `normalisation` is unknown.
    """
    return _divergences(server, client, lambda ours, theirs: theirs, layers, normalisation)


def js_divergences_of_update(
    server: Any, update: Any, layers: Sequence[Layer], normalisation: str = "absolute"
) -> tf.Tensor:
    """`js_divergences` of the server's weights and those of a client, server - update."""
    return _divergences(server, update, tf.subtract, layers, normalisation)


def _divergences(
    server: Any, given: Any, second: _Second, layers: Sequence[Layer], normalisation: str
) -> tf.Tensor:
    if normalisation not in NORMALISATIONS:
        raise ValueError(
            f"`normalisation` must be one of {', '.join(NORMALISATIONS)}; got {normalisation!r}."
        )
    flat_server, flat_given = tf.nest.flatten(server), tf.nest.flatten(given)
    result = []
    for layer in layers:
        ours = [tf.reshape(flat_server[i], [-1]) for i in layer.positions]
        theirs = [tf.reshape(flat_given[i], [-1]) for i in layer.positions]
        if normalisation == "softmax":  # positive and of sum 1: taking shares changes nothing
            theirs = [second(a, b) for a, b in zip(ours, theirs, strict=True)]
            softmaxes = _softmax(ours), _softmax(theirs)
            result.append(_divergence_of_shares(*softmaxes, lambda ours, theirs: theirs))
        else:
            result.append(_divergence_of_shares(ours, theirs, second))
    return tf.stack(result)


def _softmax(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    # e^w magnifies the rounding of w by its size, which may be large.
    weights = tf.cast(tf.concat(tensors, 0), tf.float64)
    return [tf.cast(tf.nn.softmax(weights), tf.float32)]


def _divergence_of_shares(
    ours: list[tf.Tensor], given: list[tf.Tensor], second: _Second
) -> tf.Tensor:
    """JS between |ours| / sum |ours| and |theirs| / sum |theirs|; all zeros are uniform.

    Args:
      ours: Of a layer, each [n].
      given: The same.
      second: What theirs are, of a piece of both.
    """
    size = float(sum(x.shape[0] for x in ours))
    masses = _sum_over_pieces(
        lambda a, b: tf.stack([tf.reduce_sum(tf.abs(a)), tf.reduce_sum(tf.abs(second(a, b)))]),
        *(ours, given),
    )
    are_zero = tf.equal(masses, 0.0)
    each = tf.cast(are_zero, tf.float32)  # where all are 0 each counts as 1
    masses += each * size
    scale = masses[0] / masses[1]

    def total(add_each: bool) -> tf.Tensor:
        def twice_js(a, b):  # times `masses[0]`
            p, q = tf.abs(a), tf.abs(second(a, b))
            if add_each:
                p, q = p + each[0], q + each[1]
            return _twice_js(p, q * scale)

        return _sum_over_pieces(twice_js, ours, given)

    twice = tf.cond(tf.reduce_any(are_zero), lambda: total(True), lambda: total(False))
    divergence = 0.5 * twice / masses[0]
    return tf.where(divergence < 0, 0.0, divergence)  # by rounding; NaN stays


def _twice_js(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    """Sum of p ln(p / m) + q ln(q / m) over [n] elements >= 0; 0 / 0 is 0, and so is 0 ln 0."""
    middle = 0.5 * (p + q)
    p_terms = tf.math.xlogy(p, tf.math.xdivy(p, middle))
    q_terms = tf.math.xlogy(q, tf.math.xdivy(q, middle))
    return tf.reduce_sum(p_terms + q_terms)


def _sum_over_pieces(
    function: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
    ours: Sequence[tf.Tensor],
    theirs: Sequence[tf.Tensor],
) -> tf.Tensor:
    """Sum of `function(piece of ours, piece of theirs)` over tensors [n], n known."""
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
