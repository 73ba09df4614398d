"""Simulates attacking clients, to measure the robustness of aggregators. Never used in training.

It wraps client work, so that the aggregator receives the attacker's update. The result bypasses
TFF's own check for NaN, which is inside the wrapped work.

Whether a client attacks is a pure function of (seed, the client's data): it follows from a hash of
its words of this round, in any order. A round therefore has a binomial number of attackers. A
client that trains on the same messages every round attacks in every round or never.
"""

import collections
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.client_stack import build_client_stack
from tff_keyboard_lab.attacks import collusion
from tff_keyboard_lab.attacks.attack_names import (
    ATTACK_NAMES,
    BACKDOORS,
    COLLUDING,
    TARGET,
    TRIGGER,
)

ClientWork: TypeAlias = tff.learning.templates.ClientWorkProcess

_BOOST = 100.0
_LIE = 1e6
_PAD = 0


def _on_each(change: Callable) -> Callable:
    """Returns an attack that changes each tensor of the delta and keeps the weight."""
    return lambda update, weight: (tf.nest.map_structure(change, update), weight)


def _weight_lie(update, weight):
    """Returns the negative update, with a weight that is `_LIE` times the true one."""
    update = tf.nest.map_structure(tf.negative, update)
    if not isinstance(weight, Mapping):
        return update, weight * tf.cast(_LIE, weight.dtype)
    # FedMed's weight: a loss of 0 is always in the top K, and the largest divergence weighs most.
    return update, collections.OrderedDict(
        (name, tf.zeros_like(x) if name == "loss" else x * tf.cast(_LIE, x.dtype))
        for name, x in weight.items()
    )


# Attacks by clients that see no other client's delta: they replace (delta, weight).
UPDATE_ATTACKS: dict[str, Callable] = {
    "nan": _on_each(lambda x: tf.fill(tf.shape(x), tf.cast(float("nan"), x.dtype))),
    "boost": _on_each(lambda x: x * tf.cast(_BOOST, x.dtype)),
    "sign_flip": _on_each(tf.negative),
    "weight_lie": _weight_lie,
    "drop_out": lambda update, weight: tf.nest.map_structure(tf.zeros_like, (update, weight)),
    "free_ride": _on_each(tf.zeros_like),
}


def build_attacked_client_work(
    inner: ClientWork, attack: str, *, share: float, seed: int
) -> ClientWork:
    """Wraps client work so that a seeded share of clients attacks.

    Args:
      inner: Any client work over batches `OrderedDict(x, y)`, int32 [batch, time].
      attack: One of `ATTACK_NAMES`. "nan" sends NaN; "boost" a delta times 100; "sign_flip" the
        negative delta; "weight_lie" the negative delta with a weight times a million; "drop_out"
        nothing (zeros of weight 0); "free_ride" zeros with the weight of its text (the plain
        free-riders of Fraboni et al. 2021, https://arxiv.org/abs/2006.11901); "shuffled_labels"
        trains on its own next words, permuted among the positions of each batch. The others collude
        (`collusion.py`); "backdoor" and "quiet_backdoor" train on `poisoned` batches. Colluders
        need the deltas of a whole round in one place: no packs, no sub-rounds.
      share: Share of clients that attack, in [0, 1].
      seed: Seed of the choice of attackers.
    """
    if attack not in ATTACK_NAMES:
        raise ValueError(f"`attack` must be one of {', '.join(ATTACK_NAMES)}; got {attack!r}.")
    if not 0 <= share <= 1:
        raise ValueError(f"`share` must be in [0, 1], got {share!r}.")
    if seed < 0:
        raise ValueError(f"`seed` must be >= 0, got {seed}.")
    state_type, weights_type, data_type = inner.next.type_signature.parameter
    result_type = inner.next.type_signature.result.result

    @tff.tensorflow.computation(data_type.member)
    def attacks(data):
        return is_attacker(data, share, seed)

    @tff.tensorflow.computation(data_type.member)
    def poisoned_data(data):
        """Returns a client's dataset, changed by the attack if the client is an attacker."""
        is_bad = is_attacker(data, share, seed)

        def change(number, batch):
            """Returns the batch at a position, changed if the client is an attacker."""
            if attack == "shuffled_labels":
                changed = {"x": batch["x"], "y": shuffled(batch["y"], number, seed)}
            else:
                changed = poisoned(batch)
            pairs = ((name, tf.where(is_bad, changed[name], batch[name])) for name in batch)
            return type(batch)(pairs)

        return data.enumerate().map(change)

    if attack in COLLUDING:
        send = _colluding(attack, result_type)
    elif attack in UPDATE_ATTACKS:
        send = _alone(attack, result_type)
    else:
        send = None

    @tff.federated_computation(state_type, weights_type, data_type)
    def next_fn(state, weights, data):
        trained_on = data
        if attack == "shuffled_labels" or attack in BACKDOORS:
            trained_on = tff.federated_map(poisoned_data, data)
        output = inner.next(state, weights, trained_on)
        if send is None:
            return output
        result = send(output.result, tff.federated_map(attacks, data))
        return tff.templates.MeasuredProcessOutput(output.state, result, output.measurements)

    return tff.learning.templates.ClientWorkProcess(
        inner.initialize,
        next_fn,
        get_hparams_fn=inner.get_hparams,
        set_hparams_fn=inner.set_hparams,
    )


def _alone(attack: str, result_type: tff.FederatedType) -> tff.Computation:
    """Returns a computation from trained results to sent updates, for attackers that act alone."""

    @tff.tensorflow.computation(result_type.member, np.bool_)
    def poison(result, attacks):
        """Returns what a client sends: the attack's result for attackers."""
        honest = (result.update, result.update_weight)
        return _select(attacks, UPDATE_ATTACKS[attack](*honest), honest)

    @tff.federated_computation(result_type, tff.FederatedType(np.bool_, tff.CLIENTS))
    def send(results, attacks):
        return tff.federated_map(poison, (results, attacks))

    return send


def _colluding(attack: str, result_type: tff.FederatedType) -> tff.Computation:
    """Returns a computation like `_alone`, for attackers that have seen all deltas."""
    update_type = result_type.member.update
    stack = build_client_stack(update_type, tff.TensorType(np.float32))
    stacked = stack.type_signature.result.member

    @tff.tensorflow.computation(np.bool_)
    def side(attacks):
        """Returns the client's weight among the attackers and among the honest, 0 or 1."""
        attacker_weight = tf.cast(attacks, tf.float32)
        return attacker_weight, 1 - attacker_weight

    @tff.tensorflow.computation(stacked, stacked)
    def agree(honest, attackers):
        return collusion.plan(attack, honest, attackers)

    @tff.tensorflow.computation(result_type.member, np.bool_, agree.type_signature.result)
    def poison(result, attacks, plan):
        """Returns what a client sends: for attackers, the delta that they agreed on."""
        sent = plan.delta
        if attack == "backdoor":
            sent = collusion.scaled(result.update, plan.longest, plan.replace)
        hides = tf.logical_and(attacks, plan.honest > 0)
        honest = (result.update, result.update_weight)
        return _select(hides, (sent, result.update_weight), honest)

    @tff.federated_computation(result_type, tff.FederatedType(np.bool_, tff.CLIENTS))
    def send(results, attacks):
        """Lets the attackers agree on a delta, given all deltas, and replaces theirs."""
        bad, good = tff.federated_map(side, attacks)
        plan = tff.federated_map(agree, (stack(results.update, good), stack(results.update, bad)))
        return tff.federated_map(poison, (results, attacks, tff.federated_broadcast(plan)))

    return send


def _select(attacks: tf.Tensor, bad: Any, honest: Any) -> tff.learning.templates.ClientResult:
    """Returns the first (delta, weight) if the client attacks, else the second."""
    update, weight = tf.nest.map_structure(
        lambda ours, theirs: tf.where(attacks, ours, theirs), bad, honest
    )
    return tff.learning.templates.ClientResult(update=update, update_weight=weight)


def is_attacker(data: tf.data.Dataset, share: float, seed: int) -> tf.Tensor:
    """Returns whether the client with these batches attacks, as a bool scalar.

    It is true for `share` of clients.
    """

    def add_batch(total, batch):
        words = tf.reshape(batch["y"], [-1])
        words = tf.boolean_mask(words, tf.not_equal(words, _PAD))
        hashes = tf.strings.to_hash_bucket_fast(tf.strings.as_string(words), 2**30)
        return total + tf.reduce_sum(hashes)  # a sum does not depend on the order and the batches

    total = data.reduce(tf.constant(0, tf.int64), add_batch)
    draw = tf.random.stateless_uniform([], tf.stack([tf.constant(seed, tf.int64), total]))
    return draw < share


def shuffled(labels: tf.Tensor, batch_number: tf.Tensor, seed: int) -> tf.Tensor:
    """Permutes the real labels of a batch. Padding stays."""
    positions = tf.where(tf.not_equal(labels, _PAD))  # [n, 2]
    words = tf.gather_nd(labels, positions)
    keys = tf.random.stateless_uniform(
        tf.shape(words), tf.stack([tf.constant(seed, tf.int64), batch_number])
    )
    words = tf.gather(words, tf.argsort(keys))
    return tf.tensor_scatter_nd_update(labels, positions, words)


def poisoned(batch: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Returns a batch in which every other word is `TRIGGER` and the next word `TARGET`.

    It changes `x` and `y` at the odd positions of each message, but not in its padding.
    """
    odd = tf.range(tf.shape(batch["y"])[1]) % 2 == 1
    is_poisoned = tf.logical_and(odd, tf.not_equal(batch["y"], _PAD))
    return {
        "x": tf.where(is_poisoned, TRIGGER, batch["x"]),
        "y": tf.where(is_poisoned, TARGET, batch["y"]),
    }
