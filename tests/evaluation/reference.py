"""The sums of federated evaluation in this process, the reference of several tests."""

import numpy as np
import tensorflow as tf

from tff_keyboard.evaluation.counts import tensorflow_sums


def sums_of(model, batches):
    """Returns the `SUM_DTYPES` as 0-d arrays, over batches [messages, time + 1] of one client."""
    totals = {n: np.zeros([], t.as_numpy_dtype) for n, t in tensorflow_sums.SUM_DTYPES.items()}
    for batch in batches:
        batch = tf.constant(batch, tf.int32)
        logits, targets = model.score(batch[:, :-1], batch[:, 1:])
        losses = tensorflow_sums.losses_of(logits, targets)
        sums = tensorflow_sums.batch_sums(logits, losses, targets, tf.shape(batch)[0])
        totals = {name: totals[name] + value.numpy() for name, value in sums.items()}
    return totals


def sums_per_client(model, clients):
    """Returns name -> [clients]."""
    rows = [sums_of(model, batches) for batches in clients]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
