"""Softmax cross-entropy over a large output table, with a hand-written gradient.

    l_n = log sum_v exp(h_n . w_v) - h_n . w_{y_n}
    d l_n / d h_n = sum_v p_nv w_v - w_{y_n},      d l_n / d w_v = (p_nv - [v = y_n]) h_n

Only the logits' exponentials are kept for the backward pass, unnormalised: the two matrix products
take them as they are, and the division by their sum is done on the small [n, dim] side. The target
terms are sparse corrections. There is no one-hot, no second softmax, no [n, vocabulary] gradient.

A softmax is usually shifted by the row's largest logit, which costs one more sweep that reads and
writes them all. While every row's largest logit is within 60 of zero, exp cannot overflow and the
sum cannot vanish, so the shift is left out. Beyond it the shift is back: same result. The largest
logits are needed for the accuracy anyway.
"""

import tensorflow as tf

# 10^5 words of exp(60) sum to 1e31 and exp(-60) is 9e-27: both far inside float32.
_SAFE_LOGIT = 60.0


def softmax_loss(
    hidden: tf.Tensor, table: tf.Tensor, bias: tf.Tensor | None, targets: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Negative log-likelihood of each target, in nats, and whether it is the likeliest word.

    The first output is differentiable in `hidden`, `table` and `bias`, once.

    Args:
      hidden: [n, dim] float32; n may be 0.
      table: [vocabulary, dim] float32.
      bias: [vocabulary] float32, or None.
      targets: [n] int32 in [0, vocabulary).

    Returns:
      `(losses [n] float32, is_best [n] float32)`; `is_best` is 1 where no id, special ones
      included, has a higher logit than the target.
    """
    if bias is not None:
        # A bias is one more column of the table, met by a constant 1 in the hidden vector.
        hidden = tf.concat([hidden, tf.ones([tf.shape(hidden)[0], 1])], axis=1)
        table = tf.concat([table, bias[:, tf.newaxis]], axis=1)
    return _loss_without_bias(hidden, table, targets)


@tf.custom_gradient
def _loss_without_bias(hidden, table, targets):
    logits = tf.matmul(hidden, table, transpose_b=True)
    target_rows = tf.gather(table, targets)
    target_logits = tf.reduce_sum(hidden * target_rows, axis=1)
    largest = tf.reduce_max(logits, axis=1, keepdims=True)

    def shifted():
        return logits - largest, largest

    def as_they_are():
        return logits, tf.zeros_like(largest)

    is_safe = tf.reduce_all(tf.abs(largest) < _SAFE_LOGIT)
    safe_logits, shift = tf.cond(is_safe, as_they_are, shifted)
    exponentials = tf.exp(safe_logits)
    total = tf.reduce_sum(exponentials, axis=1, keepdims=True)
    losses = tf.math.log(total[:, 0]) + shift[:, 0] - target_logits

    at_target = tf.gather(logits, targets, batch_dims=1)
    is_best = tf.cast(at_target >= largest[:, 0], tf.float32)

    def gradient(d_losses, d_is_best):
        del d_is_best
        weights = d_losses[:, tf.newaxis]
        scale = weights / total
        d_hidden = tf.matmul(exponentials, table) * scale - weights * target_rows
        d_table = tf.matmul(exponentials, hidden * scale, transpose_a=True)
        d_table = tf.tensor_scatter_nd_sub(d_table, targets[:, tf.newaxis], weights * hidden)
        return d_hidden, d_table, None

    return (losses, is_best), gradient
