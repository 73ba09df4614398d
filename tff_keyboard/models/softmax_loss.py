"""Softmax cross-entropy over a large output table, with a hand-written gradient.

    l_n = log sum_v exp(h_n . w_v) - h_n . w_{y_n}
    d l_n / d h_n = sum_v p_nv w_v - w_{y_n},      d l_n / d w_v = (p_nv - [v = y_n]) h_n

The probabilities p are computed once (`tf.nn.softmax` is a single oneDNN operation on x86 CPUs).
The loss and both gradients come from p, and the target terms are sparse corrections. There is no
one-hot, no second softmax and no [n, vocabulary] gradient.
"""

from typing import NamedTuple

import tensorflow as tf

# Smaller probabilities lose digits in float32 (subnormal below 1e-38). Their loss is computed from
# the logits.
_SMALLEST_P = 1e-30


def softmax_loss(
    hidden: tf.Tensor, table: tf.Tensor | None, bias: tf.Tensor | None, targets: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the negative log-likelihood of each target, and whether it is the likeliest word.

    The first output is differentiable once in `hidden`, `table` and `bias`.

    Args:
      hidden: [n, dim] float32; n may be 0.
      table: [vocabulary, dim] float32, or None if `hidden` are the logits [n, vocabulary]. Then
        TensorFlow's own loss is used, whose gradient is [n, vocabulary], and `bias` must be None.
      bias: [vocabulary] float32, or None.
      targets: [n] int32 in [0, vocabulary).

    Returns:
      `(losses [n] float32, is_best [n] float32)`. Losses are in nats. `is_best` is 1 if no id,
      including special ones, has a higher logit than the target.
    """
    if table is None:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, hidden)
        is_best = tf.gather(hidden, targets, batch_dims=1) >= tf.reduce_max(hidden, axis=1)
        return losses, tf.cast(is_best, tf.float32)
    if bias is not None:
        # The bias becomes one more column of the table, multiplied by a constant 1 in `hidden`.
        hidden = tf.concat([hidden, tf.ones([tf.shape(hidden)[0], 1])], axis=1)
        table = tf.concat([table, bias[:, tf.newaxis]], axis=1)
    return _loss_without_bias(hidden, table, targets)


class LossFactors(NamedTuple):
    """The loss of n positions, and the factors of its gradients.

    Attributes:
      losses, is_best: As from `softmax_loss`.
      probabilities: p, [n, vocabulary].
      d_hidden: Gradient of each loss in its hidden vector, [n, dim]. The gradient in the table is
        the sum of the outer products of p, without 1 at the target, and the hidden vectors.
    """

    losses: tf.Tensor
    is_best: tf.Tensor
    probabilities: tf.Tensor
    d_hidden: tf.Tensor


def loss_factors(hidden: tf.Tensor, table: tf.Tensor, targets: tf.Tensor) -> LossFactors:
    """Returns the loss without bias, as `softmax_loss`, and the factors of its gradients."""
    losses, is_best, p = _losses(hidden, table, targets)
    return LossFactors(losses, is_best, p, tf.matmul(p, table) - tf.gather(table, targets))


def _losses(hidden, table, targets):
    """Returns the losses [n], is_best [n] and softmax probabilities [n, vocabulary]."""
    logits = tf.matmul(hidden, table, transpose_b=True)
    p = tf.nn.softmax(logits)
    target_logits = tf.gather(logits, targets, batch_dims=1)
    target_p = tf.gather(p, targets, batch_dims=1)
    losses = tf.cond(
        tf.reduce_all(target_p > _SMALLEST_P),
        lambda: -tf.math.log(target_p),
        lambda: tf.reduce_logsumexp(logits, axis=1) - target_logits,
    )
    is_best = tf.cast(target_logits >= tf.reduce_max(logits, axis=1), tf.float32)
    return losses, is_best, p


@tf.custom_gradient
def _loss_without_bias(hidden, table, targets):
    """Returns `(losses [n], is_best [n])` of a softmax over `table`, with a gradient by hand."""
    losses, is_best, p = _losses(hidden, table, targets)

    def gradient(d_losses, d_is_best):
        del d_is_best
        weights = d_losses[:, tf.newaxis]
        weighted = weights * hidden
        d_hidden = tf.matmul(p, table) * weights - weights * tf.gather(table, targets)
        d_table = tf.matmul(p, weighted, transpose_a=True)
        # In place, because the product is not used elsewhere; `tensor_scatter_nd_sub` would copy
        # it.
        rows = tf.cast(targets, tf.int32)
        return d_hidden, tf.raw_ops.InplaceSub(x=d_table, i=rows, v=weighted), None

    return (losses, is_best), gradient
