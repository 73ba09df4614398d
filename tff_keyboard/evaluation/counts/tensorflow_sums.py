"""The `FEDERATED_SUMS` of a batch in TensorFlow, as clients count them in federated evaluation.

`predictor_evaluation.py` counts the same sums in NumPy for any model. A test compares the two.
"""

from collections.abc import Sequence

import tensorflow as tf

from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV, PAD
from tff_keyboard.evaluation.metrics import recall
from tff_keyboard.evaluation.metrics.metric_table import FEDERATED_SUMS, STRIP

SUM_DTYPES: dict[str, tf.DType] = {
    name: tf.float64 if kind is float else tf.int64 for name, kind in FEDERATED_SUMS.items()
}


def losses_of(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns -log p(target) in nats: logits [n, vocabulary], targets [n] -> [n] float32."""
    at_target = tf.gather(logits, targets, batch_dims=1)
    return tf.reduce_logsumexp(logits, axis=1) - at_target


def batch_sums(
    logits: tf.Tensor, losses: tf.Tensor, targets: tf.Tensor, num_messages: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Returns the sums of some positions of a batch, by name, in the form of `SUM_DTYPES`.

    Args:
      logits: [n, vocabulary] float32 at real positions.
      losses: [n] float32, in nats.
      targets: [n] int32 without PAD.
      num_messages: Number of messages that these positions complete.
    """
    is_eos, is_oov = tf.equal(targets, EOS), tf.equal(targets, OOV)
    is_word = targets >= NUM_SPECIAL
    losses = tf.cast(losses, tf.float64)
    ranked = recall.best_ids(logits, STRIP)
    but_eos = (PAD, BOS, OOV)

    def hits(k: int, masked: Sequence[int], counted: tf.Tensor | None = None) -> tf.Tensor:
        return recall.count_hits(ranked, targets, k=k, masked_ids=masked, counted=counted)

    count = tf.math.count_nonzero
    special = (PAD, BOS, EOS, OOV)
    sums = {
        "examples": tf.cast(num_messages, tf.int64),
        "tokens": tf.size(targets, tf.int64),
        "eos_tokens": count(is_eos),
        "oov_tokens": count(is_oov),
        "nll": tf.reduce_sum(losses),
        "nll_eos": tf.reduce_sum(tf.boolean_mask(losses, is_eos)),
        "nll_oov": tf.reduce_sum(tf.boolean_mask(losses, is_oov)),
        "hits_at_1": hits(1, special),
        "hits_at_3": hits(STRIP, special),
        "hits_at_1_eos_allowed": hits(1, but_eos),
        "hits_at_3_eos_allowed": hits(STRIP, but_eos),
        "argmax_hits_words": hits(1, (), is_word),
        "argmax_hits_eos": hits(1, (), is_eos),
        "argmax_hits_oov": hits(1, (), is_oov),
    }
    assert list(sums) == list(SUM_DTYPES)
    return sums
