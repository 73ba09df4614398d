"""Softmax cross-entropy over a large output table, with a hand-written gradient.

    l_n = log sum_v exp(h_n . w_v) - h_n . w_{y_n}
    d l_n / d h_n = sum_v p_nv w_v - w_{y_n},      d l_n / d w_v = (p_nv - [v = y_n]) h_n

Only the logits' exponentials are kept for the backward pass, unnormalised: the two matrix products
take them as they are, and the division by their sum is done on the small [n, dim] side. The target
terms are sparse corrections. There is no one-hot, no second softmax, no [n, vocabulary] gradient.
"""

import tensorflow as tf


def softmax_loss(
    hidden: tf.Tensor, table: tf.Tensor, bias: tf.Tensor | None, targets: tf.Tensor
) -> tf.Tensor:
    """Negative log-likelihood of each target, in nats.

    Differentiable in `hidden`, `table` and `bias`, once.

    Args:
      hidden: [n, dim] float32; n may be 0.
      table: [vocabulary, dim] float32.
      bias: [vocabulary] float32, or None.
      targets: [n] int32 in [0, vocabulary).

    Returns:
      [n] float32.
    """
    if bias is not None:
        # A bias is one more column of the table, met by a constant 1 in the hidden vector.
        hidden = tf.concat([hidden, tf.ones([tf.shape(hidden)[0], 1])], axis=1)
        table = tf.concat([table, bias[:, tf.newaxis]], axis=1)
    return _loss_without_bias(hidden, table, targets)


@tf.custom_gradient
def _loss_without_bias(hidden, table, targets):
    logits = tf.matmul(hidden, table, transpose_b=True)
    largest = tf.reduce_max(logits, axis=1, keepdims=True)
    exponentials = tf.exp(logits - largest)
    total = tf.reduce_sum(exponentials, axis=1, keepdims=True)
    target_rows = tf.gather(table, targets)
    target_logits = tf.reduce_sum(hidden * target_rows, axis=1)
    losses = tf.math.log(total[:, 0]) + largest[:, 0] - target_logits

    def gradient(d_losses):
        weights = d_losses[:, tf.newaxis]
        scale = weights / total
        d_hidden = tf.matmul(exponentials, table) * scale - weights * target_rows
        d_table = tf.matmul(exponentials, hidden * scale, transpose_a=True)
        d_table = tf.tensor_scatter_nd_sub(d_table, targets[:, tf.newaxis], weights * hidden)
        return d_hidden, d_table, None

    return losses, gradient
