"""Evaluates a scorer in this process: no TFF, no worker. For baselines, export and quick looks.

The sums are those of federated evaluation (`evaluation_sums.py`), so the ratios agree with it.
"""

from collections.abc import Callable, Iterable

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.evaluation import evaluation_sums

# (ids [batch, time], targets [batch, time]) -> (logits [n, vocabulary], targets [n]) at real
# targets, in any order: `NextWordModel.score`, or a baseline's own.
Scorer = Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]

_IDS = tf.TensorSpec([None, None], tf.int32)


class Evaluator:
    """A compiled evaluation; make one per scorer and use it for all clients.

    >>> def always_likes_word_four(ids, targets):
    ...     targets = tf.boolean_mask(targets, targets > 0)
    ...     return tf.one_hot(tf.fill(tf.shape(targets), 4), 6), targets
    >>> sums = Evaluator(always_likes_word_four).sums([np.array([[1, 4, 5, 2]], np.int32)])
    >>> int(sums["tokens"]), int(sums["hits_at_1"]), int(sums["hits_at_3"])
    (3, 1, 2)
    """

    def __init__(self, scorer: Scorer):
        @tf.function(input_signature=[_IDS])
        def batch_sums(batch: tf.Tensor) -> dict[str, tf.Tensor]:
            logits, targets = scorer(batch[:, :-1], batch[:, 1:])
            losses = evaluation_sums.losses_of(logits, targets)
            return evaluation_sums.batch_sums(logits, losses, targets, tf.shape(batch)[0])

        self._batch_sums = batch_sums

    def sums(self, batches: Iterable[np.ndarray]) -> dict[str, np.ndarray]:
        """Sums over the batches of one client, or of all.

        Args:
          batches: Each [batch, time + 1] int32: BOS, words, EOS, then PAD on the right.

        Returns:
          Name -> 0-d int64 or float64 array, the names of `SUM_DTYPES`.

        Raises:
          ValueError: A batch is not a 2-d integer array, or has PAD before a word.
        """
        totals = {
            name: np.zeros([], dtype.as_numpy_dtype)
            for name, dtype in evaluation_sums.SUM_DTYPES.items()
        }
        for batch in batches:
            for name, value in self._batch_sums(tf.constant(_checked(batch))).items():
                totals[name] = totals[name] + value.numpy()
        return totals

    def sums_per_client(self, clients: Iterable[Iterable[np.ndarray]]) -> dict[str, np.ndarray]:
        """As `sums`, one row per client: name -> [clients]."""
        rows = [self.sums(batches) for batches in clients]
        return {
            name: np.array([row[name] for row in rows], dtype.as_numpy_dtype)
            for name, dtype in evaluation_sums.SUM_DTYPES.items()
        }


def _checked(batch: np.ndarray) -> np.ndarray:
    if batch.ndim != 2 or not np.issubdtype(batch.dtype, np.integer):
        raise ValueError(
            f"`batch` must be [batch, time + 1] integers, got {batch.dtype} {list(batch.shape)}."
        )
    if np.any((batch[:, :-1] == PAD) & (batch[:, 1:] != PAD)):
        raise ValueError("`batch` must have PAD on the right only.")
    return batch.astype(np.int32, copy=False)
