"""Cross-entropy with the true word and with soft labels, with a hand-written gradient.

    l_n = a (log Z_n - z_{n, y_n}) + (1 - a) (log Z_n - sum_v q_nv z_nv)
    d l_n / d z_nv = p_nv - a [v = y_n] - (1 - a) q_nv

with z = h w^T, Z = sum exp z, p = exp(z) / Z and soft labels q.

With a = lambda this is the loss of learning without forgetting (Popov et al. 2018, eqs. 1-2). With
a = 0 it is the loss of transfer learning on the server (eq. 4), https://arxiv.org/abs/1712.07473.
The cross-entropy with soft labels goes back to Hinton et al. 2015,
https://arxiv.org/abs/1503.02531.
"""

import tensorflow as tf

from tff_keyboard.models.softmax_loss import softmax_loss


def soft_softmax_loss(
    hidden: tf.Tensor,
    table: tf.Tensor | None,
    bias: tf.Tensor | None,
    targets: tf.Tensor,
    soft_labels: tf.Tensor,
    true_weight: float,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Returns the weighted sum of both cross-entropies, and statistics of the true words.

    The first output is differentiable once in `hidden`, `table` and `bias`. The soft labels are
    constants.

    Args:
      hidden: [n, dim] float32; n may be 0.
      table: [vocabulary, dim] float32, or None if `hidden` are the logits [n, vocabulary].
      bias: [vocabulary] float32, or None.
      targets: [n] int32 in [0, vocabulary): the true words.
      soft_labels: [n, vocabulary] float32, rows that sum to 1.
      true_weight: a in [0, 1], the weight of the true words.

    Returns:
      `(losses [n], true_losses [n], is_best [n])`, all float32. `true_losses` is -log p of the true
      word. `is_best` is 1 if no id has a higher logit than the true word.

    Raises:
      ValueError: If `true_weight` is out of range.
    """
    if not 0 <= true_weight <= 1:
        raise ValueError(f"`true_weight` must be in [0, 1], got {true_weight}.")
    if table is None:
        true_losses, is_best = softmax_loss(hidden, None, None, targets)
        soft_losses = tf.nn.softmax_cross_entropy_with_logits(soft_labels, hidden)
        losses = true_weight * true_losses + (1 - true_weight) * soft_losses
        return losses, tf.stop_gradient(true_losses), is_best
    if bias is not None:
        # The bias becomes one more column of the table, multiplied by a constant 1 in `hidden`.
        hidden = tf.concat([hidden, tf.ones([tf.shape(hidden)[0], 1])], axis=1)
        table = tf.concat([table, bias[:, tf.newaxis]], axis=1)

    @tf.custom_gradient
    def loss(hidden, table):
        logits = tf.matmul(hidden, table, transpose_b=True)
        target_rows = tf.gather(table, targets)
        max_logits = tf.reduce_max(logits, axis=1, keepdims=True)
        exponentials = tf.exp(logits - max_logits)
        sums = tf.reduce_sum(exponentials, axis=1, keepdims=True)
        log_normaliser = tf.math.log(sums[:, 0]) + max_logits[:, 0]
        at_target = tf.gather(logits, targets, batch_dims=1)
        true_losses = log_normaliser - at_target
        soft_losses = log_normaliser - tf.reduce_sum(soft_labels * logits, axis=1)
        losses = true_weight * true_losses + (1 - true_weight) * soft_losses
        is_best = tf.cast(at_target >= max_logits[:, 0], tf.float32)

        def gradient(d_losses, d_true_losses, d_is_best):
            del d_true_losses, d_is_best  # statistics, without a gradient
            weights = d_losses[:, tf.newaxis]
            d_logits = weights * (exponentials / sums - (1 - true_weight) * soft_labels)
            at_targets = true_weight * weights
            d_hidden = tf.matmul(d_logits, table) - at_targets * target_rows
            d_table = tf.matmul(d_logits, hidden, transpose_a=True)
            d_table = tf.tensor_scatter_nd_sub(d_table, targets[:, tf.newaxis], at_targets * hidden)
            return d_hidden, d_table

        return (losses, true_losses, is_best), gradient

    return loss(hidden, table)
