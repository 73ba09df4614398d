"""Clients that misbehave, for measuring what an aggregator withstands. Never used in training.

Wraps client work, so that what arrives at the aggregator is what an attacker would send; TFF's own
check for NaN, inside the wrapped work, is passed by.

Who attacks is a pure function of (seed, the client's data): a share of clients is drawn by the
hash of the words they were given this round, whatever their order. A client that trains on the same
messages every round attacks every round or never.
"""

import collections
from collections.abc import Callable, Mapping
from typing import TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

ClientWork: TypeAlias = tff.learning.templates.ClientWorkProcess

_BOOST = 100.0
_LIE = 1e6
_PAD = 0


def _nan(update, weight):
    return tf.nest.map_structure(
        lambda x: tf.fill(tf.shape(x), tf.cast(float("nan"), x.dtype)), update
    ), weight


def _boost(update, weight):
    return tf.nest.map_structure(lambda x: x * tf.cast(_BOOST, x.dtype), update), weight


def _sign_flip(update, weight):
    return tf.nest.map_structure(tf.negative, update), weight


def _weight_lie(update, weight):
    update, _ = _sign_flip(update, weight)
    if not isinstance(weight, Mapping):
        return update, weight * tf.cast(_LIE, weight.dtype)
    # FedMed's: the least loss is always among the top K, the largest divergence weighs most.
    return update, collections.OrderedDict(
        (name, tf.zeros_like(x) if name == "loss" else x * tf.cast(_LIE, x.dtype))
        for name, x in weight.items()
    )


def _drop_out(update, weight):
    return tf.nest.map_structure(tf.zeros_like, (update, weight))


# What an attacker sends in place of (delta, weight). "shuffled_labels" trains on wrong words
# instead, and sends what it gets.
UPDATE_ATTACKS: dict[str, Callable] = {
    "nan": _nan,
    "boost": _boost,
    "sign_flip": _sign_flip,
    "weight_lie": _weight_lie,
    "drop_out": _drop_out,
}
ATTACKS = (*UPDATE_ATTACKS, "shuffled_labels")


def build_attacked_client_work(
    inner: ClientWork, attack: str, *, share: float, seed: int
) -> ClientWork:
    """`inner`, with a seeded share of clients attacking.

    Args:
      inner: Any client work over batches `OrderedDict(x, y)`, int32 [batch, time].
      attack: One of `ATTACKS`: "nan" sends NaN, "boost" a hundredfold delta, "sign_flip" its
        negative, "weight_lie" its negative and a millionfold weight, "drop_out" nothing (zeros of
        weight 0); "shuffled_labels" trains on its own next words, permuted among the positions of
        each batch.
      share: Of clients, in [0, 1].
      seed: >= 0.

    Raises:
      ValueError: An argument is out of range.
    """
    if attack not in ATTACKS:
        raise ValueError(f"`attack` must be one of {', '.join(ATTACKS)}; got {attack!r}.")
    if not 0 <= share <= 1:
        raise ValueError(f"`share` must be in [0, 1], got {share!r}.")
    if seed < 0:
        raise ValueError(f"`seed` must be >= 0, got {seed}.")
    state_type, weights_type, data_type = inner.next.type_signature.parameter
    result_type = inner.next.type_signature.result.result

    if attack == "shuffled_labels":

        @tff.tensorflow.computation(data_type.member)
        def poison(data):
            attacks = is_attacker(data, share, seed)

            def shuffle(number, batch):
                labels = tf.where(attacks, shuffled(batch["y"], number, seed), batch["y"])
                return type(batch)((name, labels if name == "y" else batch[name]) for name in batch)

            return data.enumerate().map(shuffle)

        @tff.federated_computation(state_type, weights_type, data_type)
        def next_fn(state, weights, data):
            return inner.next(state, weights, tff.federated_map(poison, data))

    else:

        @tff.tensorflow.computation(result_type.member, data_type.member)
        def poison(result, data):
            attacks = is_attacker(data, share, seed)
            honest = (result.update, result.update_weight)
            update, weight = tf.nest.map_structure(
                lambda bad, good: tf.where(attacks, bad, good),
                UPDATE_ATTACKS[attack](*honest),
                honest,
            )
            return tff.learning.templates.ClientResult(update=update, update_weight=weight)

        @tff.federated_computation(state_type, weights_type, data_type)
        def next_fn(state, weights, data):
            output = inner.next(state, weights, data)
            poisoned = tff.federated_map(poison, (output.result, data))
            return tff.templates.MeasuredProcessOutput(output.state, poisoned, output.measurements)

    return tff.learning.templates.ClientWorkProcess(
        inner.initialize,
        next_fn,
        get_hparams_fn=inner.get_hparams,
        set_hparams_fn=inner.set_hparams,
    )


def is_attacker(data: tf.data.Dataset, share: float, seed: int) -> tf.Tensor:
    """Whether the client with these batches attacks: bool scalar, true for `share` of clients."""

    def add_batch(total, batch):
        words = tf.reshape(batch["y"], [-1])
        words = tf.boolean_mask(words, tf.not_equal(words, _PAD))
        hashes = tf.strings.to_hash_bucket_fast(tf.strings.as_string(words), 2**30)
        return total + tf.reduce_sum(hashes)  # a sum: in whatever order and batches

    total = data.reduce(tf.constant(0, tf.int64), add_batch)
    draw = tf.random.stateless_uniform([], tf.stack([tf.constant(seed, tf.int64), total]))
    return draw < share


def shuffled(labels: tf.Tensor, batch_number: tf.Tensor, seed: int) -> tf.Tensor:
    """The real labels of a batch, permuted among themselves; padding stays."""
    positions = tf.where(tf.not_equal(labels, _PAD))  # [n, 2]
    words = tf.gather_nd(labels, positions)
    keys = tf.random.stateless_uniform(
        tf.shape(words), tf.stack([tf.constant(seed, tf.int64), batch_number])
    )
    words = tf.gather(words, tf.argsort(keys))
    return tf.tensor_scatter_nd_update(labels, positions, words)
