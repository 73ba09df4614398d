"""FedMed: weights by how far a client's layers moved in distribution, or FedAvg, round by round.

For worker k, layer l, with d_k^l the Jensen-Shannon divergence between the layer's weights at the
server and at the worker (made distributions, `js_divergence.py`):

    adaptive:  theta <- theta - eta sum_k gamma_k^l (theta^l - theta_k^l),  gamma^l = softmax_k(d^l)
    FedAvg:    theta <- theta - sum_k (n_k / n) (theta - theta_k)

Mediation chooses: with L(t) the plain mean of the round's local losses, adaptive while
|L(t) - L(t - 1)| >= threshold, else FedAvg; the first round has no L(t - 1) and is adaptive. topK:
of M clients only the K = ceil(fraction * M) of lowest local loss contribute. L(t) is over all M.

One pass, several workers. The adaptive weights and K depend on all clients, yet TFF compiles one
aggregation for distributed workers, not one that needs another's result. Three facts make one
enough. JS is at most ln 2, so exp(d) needs no running maximum. Both branches fit in sums, of which
the server uses one. And the clients topK leaves out are at most D = N - ceil(fraction * N) of the
N expected: a buffer holds the D highest losses so far, and whom it cannot hold contributes for
certain. Memory: two sums and D deltas; D is 0 without topK.

Ties in loss are broken by the hash of the delta, so neither the order of clients nor the number of
workers matters.

gamma is always within a factor 2 of uniform, because JS <= ln 2: compare with FedAvg at server
learning rate eta.

Source: Wu, Liang & Wang 2020, eqs. 2-9 and Algorithm 1, "FedMed: A Federated Learning Framework
for Language Modeling", https://doi.org/10.3390/s20144048.
"""

import collections
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation.client_digest import client_digest
from tff_keyboard.aggregation.layers import (
    Layer,
    require_float_tensors,
    resolve_layers,
    scale_layers,
    tensor_types,
)

_CEIL_SLACK = 1e-9  # 0.8 * 10 is 8.000000000000002 in binary for some fractions: still 8


def top_count(fraction: float, clients: int) -> int:
    """K = ceil(fraction * clients), at least 1 of any clients.

    >>> [top_count(0.8, m) for m in (0, 1, 5, 10, 11)]
    [0, 1, 4, 8, 9]
    """
    return min(clients, max(1, math.ceil(fraction * clients - _CEIL_SLACK)))


def fedmed_weight_type(num_layers: int) -> tff.Type:
    """What a client tells besides its delta: examples (or tokens), local loss, JS per layer."""
    return tff.to_type(
        collections.OrderedDict(
            num_examples=np.float32,
            loss=np.float32,
            divergence=tff.TensorType(np.float32, [num_layers]),
        )
    )


class FedMedFactory(tff.aggregators.WeightedAggregationFactory):
    """Mediated adaptive aggregation with topK; the weight is `fedmed_weight_type(layers)`.

    A client counts when `num_examples` > 0. Divergences are cut to [0, ln 2], which honest ones
    are in. A round where nobody counts gives zeros and leaves the state as it is.

    State: `previous_loss` (float32 nats) and `round` (int32, rounds where somebody counted).
    Measurements: `adaptive` (1 or 0), `loss_change` (nats; 0 in the first round), `mean_loss`,
    `clients` (M), `top_clients` (K), `bytes_not_uploaded` (int64: deltas of the M - K, which a
    server that asks for losses first would never receive), and `attention`, per layer the
    `effective_clients` and `maximum_weight` of the adaptive weights.

    Args:
      top_fraction: In (0, 1]; 1 lets all contribute.
      mediation_threshold: The paper's epsilon, in nats, >= 0; 0 is adaptive always.
      adaptive_step: eta > 0, of the adaptive branch only. Keep the server's learning rate at 1,
        so that the other branch is FedAvg.
      max_clients: Clients a round at most; sets the buffer of topK, without which it does not
        matter. With topK more clients make the round fail.
      layer_groups: See `layers.resolve_layers`.
      variable_names: See `layers.resolve_layers`.

    Raises:
      ValueError: An argument is out of range.
    """

    def __init__(
        self,
        *,
        top_fraction: float = 1.0,
        mediation_threshold: float = 0.01,
        adaptive_step: float = 1.0,
        max_clients: int,
        layer_groups: Mapping[str, Sequence[int | str]] | None = None,
        variable_names: Sequence[str] | None = None,
    ):
        if not 0 < top_fraction <= 1:
            raise ValueError(f"`top_fraction` must be in (0, 1], got {top_fraction!r}.")
        if not (math.isfinite(mediation_threshold) and mediation_threshold >= 0):
            raise ValueError(
                f"`mediation_threshold` must be >= 0 nats, got {mediation_threshold!r}."
            )
        if not (math.isfinite(adaptive_step) and adaptive_step > 0):
            raise ValueError(f"`adaptive_step` must be > 0, got {adaptive_step!r}.")
        if max_clients < 1:
            raise ValueError(f"`max_clients` must be >= 1, got {max_clients}.")
        self._fraction = top_fraction
        self._threshold = mediation_threshold
        self._step = adaptive_step
        self._max_clients = max_clients
        self._layer_groups = layer_groups
        self._variable_names = variable_names

    def create(
        self, value_type: tff.Type, weight_type: tff.Type
    ) -> tff.templates.AggregationProcess:
        """See base class.

        Raises:
          TypeError: `weight_type` is not `fedmed_weight_type` of the layers: the client work must
            be `learning.scored_client_work`'s.
        """
        require_float_tensors(value_type, "FedMed")
        layers = resolve_layers(value_type, self._layer_groups, self._variable_names)
        expected_weight = fedmed_weight_type(len(layers))
        if not expected_weight.is_assignable_from(tff.to_type(weight_type)):
            raise TypeError(
                f"FedMed with {len(layers)} layers needs client weights of type {expected_weight}, "
                f"got {weight_type}: build the client work with `build_scored_client_work`."
            )
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        buffer_size = self._max_clients - top_count(self._fraction, self._max_clients)
        delta_bytes = sum(
            int(np.prod(t.shape)) * np.dtype(t.dtype).itemsize for t in tensor_types(value_type)
        )

        too_many = (
            f"FedMed was built for at most {self._max_clients} clients a round; "
            "set `max_clients` (the report goal) to more."
        )

        @tff.tensorflow.computation
        def zero():
            return _empty(specs, len(layers), buffer_size)

        accumulator_type = zero.type_signature.result

        @tff.tensorflow.computation(accumulator_type, tff.to_type([value_type, weight_type]))
        @tf.function
        def accumulate(accumulator, client):
            value, weight = client
            candidate = _candidate(value, weight, hashed=buffer_size > 0)
            return _insert(accumulator, candidate, layers, buffer_size)

        @tff.tensorflow.computation(accumulator_type, accumulator_type)
        @tf.function
        def merge(a, b):
            return _merge(a, b, layers, buffer_size)

        @tff.tensorflow.computation(accumulator_type)
        def report(accumulator):
            return accumulator

        state_type = tff.to_type(collections.OrderedDict(previous_loss=np.float32, round=np.int32))

        @tff.tensorflow.computation(state_type, accumulator_type)
        @tf.function
        def finish(state, accumulator):
            clients = accumulator["clients"]
            if buffer_size:
                fits = tf.debugging.assert_less_equal(clients, self._max_clients, too_many)
                with tf.control_dependencies([fits]):
                    clients = tf.identity(clients)
            exact = tf.cast(clients, tf.float64) * self._fraction - _CEIL_SLACK
            top = tf.minimum(clients, tf.maximum(1, tf.cast(tf.math.ceil(exact), tf.int32)))
            sums = _drain(accumulator, clients - top, layers, buffer_size)

            some = clients > 0
            mean_loss = tf.math.divide_no_nan(
                accumulator["loss_total"], tf.cast(clients, tf.float64)
            )
            mean_loss = tf.cast(mean_loss, tf.float32)
            first = tf.equal(state["round"], 0)
            change = tf.where(first, 0.0, tf.abs(mean_loss - state["previous_loss"]))
            adaptive = tf.logical_or(first, change >= self._threshold)

            gamma_scale = self._step * tf.math.reciprocal_no_nan(sums["exp_total"])
            mean_scale = tf.math.reciprocal_no_nan(sums["example_total"])
            mean_factors = tf.fill([len(layers)], mean_scale)
            result = tf.nest.map_structure(
                lambda a, b: tf.where(adaptive, a, b),
                scale_layers(sums["adaptive"], layers, gamma_scale),
                scale_layers(sums["average"], layers, mean_factors),
            )
            new_state = collections.OrderedDict(
                previous_loss=tf.where(some, mean_loss, state["previous_loss"]),
                round=state["round"] + tf.cast(some, tf.int32),
            )
            measurements = collections.OrderedDict(
                adaptive=tf.cast(adaptive, tf.int32),
                loss_change=tf.where(some, change, 0.0),
                mean_loss=mean_loss,
                clients=clients,
                top_clients=top,
                bytes_not_uploaded=tf.cast(clients - top, tf.int64) * delta_bytes,
                attention=_attention(sums, layers),
            )
            return result, new_state, measurements

        @tff.tensorflow.computation
        def initial_state():
            return collections.OrderedDict(previous_loss=tf.constant(0.0), round=tf.constant(0))

        @tff.federated_computation
        def init_fn():
            return tff.federated_eval(initial_state, tff.SERVER)

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            clients = tff.federated_zip((value, weight))
            total = tff.federated_aggregate(clients, zero(), accumulate, merge, report)
            result, new_state, measurements = tff.federated_map(finish, (state, total))
            return tff.templates.MeasuredProcessOutput(new_state, result, measurements)

        return tff.templates.AggregationProcess(init_fn, next_fn)


# An accumulator has the sums of clients who contribute for certain, under "sums", and a buffer of
# `buffer_size` rows for those who may yet be left out. Rows that hold nobody have `used` 0 and
# lose every comparison, so that the buffer needs no length.


def _empty(specs: Any, num_layers: int, buffer_size: int) -> collections.OrderedDict:
    zeros = tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs)
    rows = tf.nest.map_structure(lambda s: tf.zeros([buffer_size, *s.shape], s.dtype), specs)
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
        buffer=_rows(
            used=tf.zeros([buffer_size], tf.int32),
            digest=tf.zeros([buffer_size], tf.int64),
            num_examples=tf.zeros([buffer_size]),
            loss=tf.zeros([buffer_size]),
            divergence=tf.zeros([buffer_size, num_layers]),
            value=rows,
        ),
    )


def _rows(**columns) -> collections.OrderedDict:
    return collections.OrderedDict(columns)


def _candidate(value: Any, weight: Any, *, hashed: bool) -> collections.OrderedDict:
    """One client as a buffer of one row; `used` is 0 for a client that does not count.

    Where nobody can be left out no ties are broken, and the delta is not `hashed`.
    """
    counts = weight["num_examples"] > 0
    row = _rows(
        used=tf.cast(counts, tf.int32),
        digest=client_digest(value) if hashed else tf.constant(0, tf.int64),
        num_examples=weight["num_examples"],
        loss=weight["loss"],
        divergence=tf.clip_by_value(weight["divergence"], 0.0, math.log(2)),
        value=value,
    )
    # A condition, unlike `tf.where`, copies no delta that counts.
    row = tf.cond(counts, lambda: row, lambda: tf.nest.map_structure(tf.zeros_like, row))
    return tf.nest.map_structure(lambda x: x[tf.newaxis], row)


def _insert(accumulator, candidate, layers: Sequence[Layer], buffer_size: int):
    """The accumulator with one client more."""
    result = _count(accumulator, candidate)
    if not buffer_size:
        result["sums"] = _contribute(accumulator["sums"], candidate, layers)
        return result
    buffer = accumulator["buffer"]
    lowest = _ascending(buffer)[0]
    weakest = tf.nest.map_structure(lambda x: x[lowest : lowest + 1], buffer)
    both = tf.nest.map_structure(
        lambda a, b: tf.concat([a, b], 0), _keys(weakest), _keys(candidate)
    )
    candidate_stays = tf.equal(_ascending(both)[0], 0)
    # The lower of the two contributes; copying the buffer is left out where it does not change.
    if candidate_stays:
        leaves, kept = (
            weakest,
            tf.nest.map_structure(
                lambda rows, row: tf.tensor_scatter_nd_update(rows, [[lowest]], row),
                buffer,
                candidate,
            ),
        )
    else:
        leaves, kept = candidate, buffer
    result["buffer"] = kept
    result["sums"] = _contribute(accumulator["sums"], leaves, layers)
    return result


def _merge(a, b, layers: Sequence[Layer], buffer_size: int):
    """The accumulator of the clients of both."""
    result = collections.OrderedDict(
        clients=a["clients"] + b["clients"],
        loss_total=a["loss_total"] + b["loss_total"],
        sums=tf.nest.map_structure(tf.add, a["sums"], b["sums"]),
        buffer=a["buffer"],
    )
    result["sums"]["exp_maximum"] = tf.maximum(a["sums"]["exp_maximum"], b["sums"]["exp_maximum"])
    if buffer_size:
        both = tf.nest.map_structure(lambda x, y: tf.concat([x, y], 0), a["buffer"], b["buffer"])
        order = _ascending(both)
        leaving, staying = order[:buffer_size], order[buffer_size:]
        leaves = tf.nest.map_structure(lambda x: tf.gather(x, leaving), both)
        result["sums"] = _contribute(result["sums"], leaves, layers)
        result["buffer"] = tf.nest.map_structure(lambda x: tf.gather(x, staying), both)
    return result


def _drain(accumulator, left_out: tf.Tensor, layers: Sequence[Layer], buffer_size: int):
    """The sums with all of the buffer but its `left_out` highest losses."""
    if not buffer_size:
        return accumulator["sums"]
    buffer = accumulator["buffer"]
    rank = tf.argsort(_ascending(buffer))
    contributes = tf.cast(rank < buffer_size - left_out, tf.int32)
    rows = collections.OrderedDict(buffer)
    rows["used"] = buffer["used"] * contributes
    return _contribute(accumulator["sums"], rows, layers)


def _count(accumulator, candidate):
    result = collections.OrderedDict(accumulator)
    result["clients"] = accumulator["clients"] + candidate["used"][0]
    result["loss_total"] = accumulator["loss_total"] + tf.cast(candidate["loss"][0], tf.float64)
    return result


def _contribute(sums, rows, layers: Sequence[Layer]):
    """The sums with the used ones of `rows` added to both branches."""
    used = tf.cast(rows["used"], tf.float64)
    divergence = tf.cast(rows["divergence"], tf.float64)
    exponentials = used[:, tf.newaxis] * tf.exp(divergence)  # [rows, layers], in [1, 2] or 0
    examples = used * tf.cast(rows["num_examples"], tf.float64)

    adaptive = list(tf.nest.flatten(sums["adaptive"]))
    average = list(tf.nest.flatten(sums["average"]))
    values = tf.nest.flatten(rows["value"])
    for number, layer in enumerate(layers):
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


def _weighted_rows(weights: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    return tf.tensordot(tf.cast(weights, rows.dtype), rows, 1)


def _keys(rows) -> collections.OrderedDict:
    return collections.OrderedDict((name, rows[name]) for name in ("used", "digest", "loss"))


def _ascending(rows) -> tf.Tensor:
    """Row numbers: unused ones first, then by loss, ties by digest."""
    order = tf.argsort(rows["digest"], stable=True)
    for key in (rows["loss"], rows["used"]):
        order = tf.gather(order, tf.argsort(tf.gather(key, order), stable=True))
    return order


def _attention(sums, layers: Sequence[Layer]):
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
