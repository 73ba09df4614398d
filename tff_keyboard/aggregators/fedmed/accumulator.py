"""FedMed's sums over clients, and the buffer of the clients that topK may leave out.

Clients are added one by one, and K is known only at the end. The clients left out are those with
the highest losses, at most D = `buffer_size` of them. A buffer contains the D highest losses so
far; clients that are not in it contribute for certain. Both branches of mediation are sums over the
contributing clients:

    adaptive^l = sum_k e^(d_k^l) delta_k^l,  with  sum_k e^(d_k^l);      average = sum_k n_k delta_k

JS is at most ln 2, so e^d needs no running maximum. Two accumulators merge to the accumulator of
all their clients, so a round may be distributed over several workers. Ties in loss are broken by
the hash of the update, so neither the order of clients nor the number of workers matters.

A client reports these numbers in addition to its update:

    num_examples   n_k of the FedAvg branch
    loss           L_k in nats, compared by topK and mediation
    divergence     JS per layer in nats, the weights of the adaptive branch

All three are claims of the client. A correct loss is at most about ln V, the loss of an untrained
model; the limit is twice that. JS is at most ln 2. Within the limits a client may still lie: a
client that claims no loss is always in topK, and one that claims JS = ln 2 has twice the weight of
one that did not move.
"""

import collections
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.guards.update_guard import WeightLimit
from tff_keyboard.aggregators.layers import Layer
from tff_keyboard.aggregators.seeded_client_map import client_digest

MAX_DIVERGENCE = math.log(2)
Clients = collections.OrderedDict  # an accumulator, rows of a buffer, or sums


def fedmed_weight_type(num_layers: int) -> tff.Type:
    """Returns the type of examples (or tokens), local loss, and JS per layer."""
    scalars = {"num_examples": np.float32, "loss": np.float32}
    divergence = tff.TensorType(np.float32, [num_layers])
    return tff.to_type(collections.OrderedDict(scalars, divergence=divergence))


def limit_fedmed_weight(limit_examples: WeightLimit, vocabulary_size: int) -> WeightLimit:
    """Returns limits on all reported numbers. Losses are at most 2 ln V for V > 1 words."""
    max_loss = 2 * math.log(vocabulary_size)

    def limit(weight: Any) -> Any:
        return collections.OrderedDict(
            num_examples=limit_examples(weight["num_examples"]),
            loss=tf.minimum(weight["loss"], max_loss),
            divergence=tf.minimum(weight["divergence"], MAX_DIVERGENCE),
        )

    return limit


@dataclasses.dataclass(frozen=True)
class Accumulator:
    """The operations on accumulators, which are structures of tensors.

    An accumulator has `clients` (int32, number of counting clients), `loss_total` (float64 nats),
    the `sums` over clients that contribute for certain, and a `buffer` of `buffer_size` rows for
    clients that may still be left out. Unused rows have `used` = 0 and lose every comparison, so
    the buffer needs no length.
    """

    value_specs: Any
    layers: tuple[Layer, ...]
    buffer_size: int  # clients that can be left out, >= 0

    def zero(self) -> Clients:
        """Returns the accumulator without clients."""
        size, num_layers = self.buffer_size, len(self.layers)
        zeros = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), self.value_specs)
        rows = tf.nest.map_structure(
            lambda s: tf.zeros([size, *s.shape], s.dtype), self.value_specs
        )
        return collections.OrderedDict(
            clients=tf.constant(0),
            loss_total=tf.constant(0.0, tf.float64),
            sums=collections.OrderedDict(
                example_total=tf.constant(0.0, tf.float64),
                exp_total=tf.zeros([num_layers], tf.float64),
                exp_log_total=tf.zeros([num_layers], tf.float64),
                exp_maximum=tf.zeros([num_layers], tf.float64),
                adaptive=zeros,
                average=zeros,
            ),
            buffer=collections.OrderedDict(
                used=tf.zeros([size], tf.int32),
                digest=tf.zeros([size], tf.int64),
                num_examples=tf.zeros([size]),
                loss=tf.zeros([size]),
                divergence=tf.zeros([size, num_layers]),
                value=rows,
            ),
        )

    def insert(self, accumulator: Clients, value: Any, weight: Any) -> Clients:
        """Returns the accumulator with one more client, if its `num_examples` is > 0.

        `weight` is of `fedmed_weight_type`. Divergences are clipped to [0, ln 2].
        """
        candidate = self._candidate(value, weight)
        result = collections.OrderedDict(accumulator)
        result["clients"] = accumulator["clients"] + candidate["used"][0]
        result["loss_total"] = accumulator["loss_total"] + tf.cast(candidate["loss"][0], tf.float64)
        leaves = candidate
        if self.buffer_size:
            result["buffer"], leaves = _exchange(accumulator["buffer"], candidate)
        result["sums"] = self._contribute(accumulator["sums"], leaves)
        return result

    def merge(self, a: Clients, b: Clients) -> Clients:
        """Returns the accumulator of the clients in both."""
        result = collections.OrderedDict(
            clients=a["clients"] + b["clients"],
            loss_total=a["loss_total"] + b["loss_total"],
            sums=tf.nest.map_structure(tf.add, a["sums"], b["sums"]),
            buffer=a["buffer"],
        )
        maxima = tf.maximum(a["sums"]["exp_maximum"], b["sums"]["exp_maximum"])
        result["sums"]["exp_maximum"] = maxima
        if self.buffer_size:
            both = _map(lambda x, y: tf.concat([x, y], 0), a["buffer"], b["buffer"])
            order = _ascending(both)
            leaving, staying = order[: self.buffer_size], order[self.buffer_size :]
            leaves = _map(lambda x: tf.gather(x, leaving), both)
            result["sums"] = self._contribute(result["sums"], leaves)
            result["buffer"] = _map(lambda x: tf.gather(x, staying), both)
        return result

    def drain(self, accumulator: Clients, left_out: tf.Tensor) -> Clients:
        """Returns the sums including the buffer, except its `left_out` (int32) highest losses."""
        if not self.buffer_size:
            return accumulator["sums"]
        buffer = accumulator["buffer"]
        rank = tf.argsort(_ascending(buffer))
        contributes = tf.cast(rank < self.buffer_size - left_out, tf.int32)
        rows = collections.OrderedDict(buffer)
        rows["used"] = buffer["used"] * contributes
        return self._contribute(accumulator["sums"], rows)

    def _candidate(self, value: Any, weight: Any) -> Clients:
        """Returns one client as a buffer of one row. `used` is 0 if it does not count."""
        counts = weight["num_examples"] > 0
        # If no client can be left out, there are no ties, and the update is not hashed.
        digest = client_digest(value) if self.buffer_size else tf.constant(0, tf.int64)
        row = collections.OrderedDict(
            used=tf.cast(counts, tf.int32),
            digest=digest,
            num_examples=weight["num_examples"],
            loss=weight["loss"],
            divergence=tf.clip_by_value(weight["divergence"], 0.0, MAX_DIVERGENCE),
            value=value,
        )
        # Unlike `tf.where`, a condition does not copy an update that counts.
        row = tf.cond(counts, lambda: row, lambda: _map(tf.zeros_like, row))
        return _map(lambda x: x[tf.newaxis], row)

    def _contribute(self, sums: Clients, rows: Clients) -> Clients:
        """Returns the sums with the used rows of `rows` added to both branches."""
        used = tf.cast(rows["used"], tf.float64)
        divergence = tf.cast(rows["divergence"], tf.float64)
        exponentials = used[:, tf.newaxis] * tf.exp(divergence)  # [rows, layers], in [1, 2] or 0
        examples = used * tf.cast(rows["num_examples"], tf.float64)

        adaptive = list(tf.nest.flatten(sums["adaptive"]))
        average = list(tf.nest.flatten(sums["average"]))
        values = tf.nest.flatten(rows["value"])
        for number, layer in enumerate(self.layers):
            for i in layer.positions:
                adaptive[i] += _weighted_rows(exponentials[:, number], values[i])
                average[i] += _weighted_rows(examples, values[i])
        return collections.OrderedDict(
            example_total=sums["example_total"] + tf.reduce_sum(examples),
            exp_total=sums["exp_total"] + tf.reduce_sum(exponentials, 0),
            exp_log_total=sums["exp_log_total"] + tf.reduce_sum(exponentials * divergence, 0),
            exp_maximum=tf.maximum(sums["exp_maximum"], tf.reduce_max(exponentials, 0)),
            adaptive=tf.nest.pack_sequence_as(sums["adaptive"], adaptive),
            average=tf.nest.pack_sequence_as(sums["average"], average),
        )


def attention_measurements(sums: Clients, layers: tuple[Layer, ...]) -> Clients:
    """Returns each layer's `effective_clients` and `maximum_weight` of gamma.

    Both are 0 if no client contributed.
    """
    total = sums["exp_total"]
    # Entropy of gamma = e^d / total: log total - sum gamma d.
    entropy = tf.math.log(tf.maximum(total, 1.0)) - tf.math.divide_no_nan(
        sums["exp_log_total"], total
    )
    effective = tf.where(total > 0, tf.exp(entropy), tf.zeros_like(total))
    maximum = tf.math.divide_no_nan(sums["exp_maximum"], total)
    return collections.OrderedDict(
        (
            layer.name,
            collections.OrderedDict(
                effective_clients=tf.cast(effective[i], tf.float32),
                maximum_weight=tf.cast(maximum[i], tf.float32),
            ),
        )
        for i, layer in enumerate(layers)
    )


def _map(function: Callable[..., Any], *structures: Any) -> Any:
    return tf.nest.map_structure(function, *structures)


def _exchange(buffer: Clients, candidate: Clients) -> tuple[Clients, Clients]:
    """Returns the buffer with the higher of its lowest row and the candidate, and the other one."""
    lowest = _ascending(buffer)[0]
    weakest = _map(lambda x: x[lowest : lowest + 1], buffer)
    both = _map(lambda a, b: tf.concat([a, b], 0), _keys(weakest), _keys(candidate))

    def candidate_stays():
        update = _map(
            lambda rows, row: tf.tensor_scatter_nd_update(rows, [[lowest]], row), buffer, candidate
        )
        return update, weakest

    # A condition copies the buffer only if it changes.
    return tf.cond(tf.equal(_ascending(both)[0], 0), candidate_stays, lambda: (buffer, candidate))


def _weighted_rows(weights: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """Returns the sum over n of weights [n] * rows [n, ...]."""
    weights = tf.cast(weights, rows.dtype)
    if rows.shape[0] == 1:  # a matrix product would copy it
        return weights[0] * rows[0]
    return tf.tensordot(weights, rows, 1)


def _keys(rows: Clients) -> Clients:
    return collections.OrderedDict((name, rows[name]) for name in ("used", "digest", "loss"))


def _ascending(rows: Clients) -> tf.Tensor:
    """Returns the row numbers in order: unused ones first, then by loss, ties by digest."""
    order = tf.argsort(rows["digest"], stable=True)
    for key in (rows["loss"], rows["used"]):
        order = tf.gather(order, tf.argsort(tf.gather(key, order), stable=True))
    return order
