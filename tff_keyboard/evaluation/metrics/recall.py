"""Recall@k of the suggestion strip, as counts of hits.

A phone never offers PAD, BOS, EOS or OOV, so Hard et al. 2018 leave them out of the suggestions: a
hit@k is a target among the k best words **after special ids are masked**. The denominator is a
separate choice (`metric_table.py`). TFF's Stack Overflow task masks nothing: its accuracy is the
share of targets that are the plain argmax.

Both, and suggestions that may include EOS, are computed from one sorted list of the best `k +
NUM_SPECIAL` ids. Ties go to the lower id (the more frequent word), as in `tf.math.top_k` and the
exported model.

Sources: Hard et al. 2018, section 6, https://arxiv.org/abs/1811.03604; TFF's
`simulation/baselines/stackoverflow/word_prediction_tasks.py`.
"""

from collections.abc import Sequence

import tensorflow as tf

from tff_keyboard.data.vocabulary import NUM_SPECIAL, SPECIAL_IDS


def best_ids(logits: tf.Tensor, k: int) -> tf.Tensor:
    """Returns the `k + NUM_SPECIAL` best ids of each row, best first, enough after any masking.

    Args:
      logits: [n, vocabulary] float32.
      k: Number of suggestions, >= 1.

    Returns:
      [n, min(k + NUM_SPECIAL, vocabulary)] int32.
    """
    if k < 1:
        raise ValueError(f"`k` must be >= 1, got {k}.")
    return tf.math.top_k(logits, k=min(k + NUM_SPECIAL, logits.shape[-1])).indices


def count_hits(
    ranked: tf.Tensor,
    targets: tf.Tensor,
    *,
    k: int,
    masked_ids: Sequence[int] = SPECIAL_IDS,
    counted: tf.Tensor | None = None,
) -> tf.Tensor:
    """Counts the targets that are among the first `k` unmasked ids, as an int64 scalar.

    Args:
      ranked: [n, m] result of `best_ids` for this `k` or a larger one.
      targets: [n] ids.
      k: Number of suggestions.
      masked_ids: Ids that are never suggested (none in TFF's convention).
      counted: [n] bool, the positions to count; None counts all.
    """
    allowed = tf.ones_like(ranked, tf.bool)
    for special in masked_ids:
        allowed &= tf.not_equal(ranked, special)
    position = tf.cumsum(tf.cast(allowed, tf.int32), axis=1)  # 1 for the first suggestion
    is_suggested = allowed & (position <= k)
    hit = tf.reduce_any(is_suggested & tf.equal(ranked, targets[:, tf.newaxis]), axis=1)
    if counted is not None:
        hit &= counted
    return tf.math.count_nonzero(hit)
