"""FedMed: weights by how far a client's layers moved in distribution, or FedAvg, round by round.

For worker k, layer l, with d_k^l the Jensen-Shannon divergence between the layer's weights at the
server and at the worker (made distributions, `js_divergence.py`):

    adaptive:  theta <- theta - eta sum_k gamma_k^l (theta^l - theta_k^l),  gamma^l = softmax_k(d^l)
    FedAvg:    theta <- theta - sum_k (n_k / n) (theta - theta_k)

Mediation chooses: with L(t) the plain mean of the round's local losses, adaptive while
|L(t) - L(t - 1)| >= threshold, else FedAvg; the first round has no L(t - 1) and is adaptive. topK:
of M clients only the K = ceil(fraction * M) of lowest local loss contribute. L(t) is over all M.

One pass, several workers. The adaptive weights and K depend on all clients, yet TFF compiles one
aggregation for distributed workers, not one that needs another's result. One is enough: both
branches fit in sums, of which the server uses one, and a buffer holds the clients whom topK may
leave out, at most D = N - ceil(fraction * N) of the N expected (`accumulator.py`). Memory: two sums
and D deltas; D is 0 without topK.

gamma is always within a factor 2 of uniform, because JS <= ln 2: compare with FedAvg at rate eta.

Source: Wu, Liang & Wang 2020, eqs. 2-9 and Algorithm 1, "FedMed: A Federated Learning Framework
for Language Modeling", https://doi.org/10.3390/s20144048.
"""

import collections
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config.sections.rule_config import FedMed, LayerGroups
from tff_keyboard.federated.aggregation import layers as layers_lib
from tff_keyboard.federated.aggregation.processes import AggregationProcess, build_process
from tff_keyboard.federated.aggregation.upload_size import raw_bytes
from tff_keyboard.federated.algorithms.fedmed.accumulator import Accumulator, attention_measurements
from tff_keyboard.federated.algorithms.fedmed.client_weight import fedmed_weight_type

_CEIL_SLACK = 1e-9  # 0.8 * 10 is 8.000000000000002 in binary for some fractions: still 8


def top_count(fraction: float, clients: int) -> int:
    """K = ceil(fraction * clients), at least 1 of any clients.

    >>> [top_count(0.8, m) for m in (0, 1, 5, 10, 11)]
    [0, 1, 4, 8, 9]
    """
    return min(clients, max(1, math.ceil(fraction * clients - _CEIL_SLACK)))


class FedMedFactory(tff.aggregators.WeightedAggregationFactory):
    """Mediated adaptive aggregation with topK; the weight is `fedmed_weight_type(layers)`.

    A client counts when `num_examples` > 0. Divergences are cut to [0, ln 2], which honest ones
    are in. A round where nobody counts gives zeros and leaves the state as it is.

    State: `previous_loss` (float32 nats) and `round` (int32, rounds where somebody counted).
    Measurements: `adaptive` (1 or 0), `loss_change` (nats; 0 in the first round), `mean_loss`,
    `clients` (M), `top_clients` (K), `bytes_not_uploaded` (int64: whole deltas of the M - K; they
    are uploaded here, but a server that asks for losses first would never receive them), and
    `attention`, per layer the `effective_clients` and `maximum_weight` of the adaptive weights.

    Args:
      rule: Config, which the other arguments change where they are not None. None: no topK,
        threshold 0.1, losses of trained models, a layer for each tensor.
      max_clients: Clients a round at most; sets the buffer of topK, without which it does not
        matter. With topK more clients make the round fail.
      top_fraction: Share of clients, lowest loss first, that contribute; in (0, 1].
      mediation_threshold: Change of the mean loss in nats from which on the adaptive branch is
        used; >= 0.
      local_loss: Loss of a client: "after_training" or "during_training".
      layer_groups: Group name -> variable names, or positions such as "0"; a partition.
      variable_names: Names of the tensors of a delta, in order; what `layer_groups` may name.

    Attributes:
      rule: The rule as all arguments make it.

    Raises:
      ValueError: An argument is out of range.
    """

    def __init__(
        self,
        rule: FedMed | None = None,
        *,
        max_clients: int,
        top_fraction: float | None = None,
        mediation_threshold: float | None = None,
        local_loss: str | None = None,
        layer_groups: LayerGroups | None = None,
        variable_names: Sequence[str] | None = None,
    ):
        if max_clients < 1:
            raise ValueError(f"`max_clients` must be >= 1, got {max_clients}.")
        self.rule = (rule or FedMed()).changed(
            top_fraction=top_fraction,
            mediation_threshold=mediation_threshold,
            local_loss=local_loss,
            layer_groups=layer_groups,
        )
        self._max_clients = max_clients
        self._variable_names = variable_names

    def layers_of(self, value_type: tff.Type) -> tuple[layers_lib.Layer, ...]:
        """The layers of a delta of that type; what `fedmed_weight_type` counts."""
        return layers_lib.resolve_layers(value_type, self.rule.layer_groups, self._variable_names)

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class.

        Raises:
          TypeError: `weight_type` is not `fedmed_weight_type` of the layers: the client work must
            be that of `build_scored_client_work`.
        """
        layers_lib.require_float_tensors(value_type, "FedMed")
        layers = self.layers_of(value_type)
        _check_weight_type(weight_type, len(layers))
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        buffer_size = self._max_clients - top_count(self.rule.top_fraction, self._max_clients)
        accumulator = Accumulator(specs, layers, buffer_size)
        delta_bytes = raw_bytes(value_type)

        @tff.tensorflow.computation
        def zero():
            return accumulator.zero()

        total_type = zero.type_signature.result

        @tff.tensorflow.computation(total_type, tff.to_type([value_type, weight_type]))
        @tf.function
        def accumulate(total, client):
            return accumulator.insert(total, *client)

        @tff.tensorflow.computation(total_type, total_type)
        @tf.function
        def merge(a, b):
            return accumulator.merge(a, b)

        report = tff.tensorflow.computation(lambda total: total, total_type)

        state_type = tff.to_type(collections.OrderedDict(previous_loss=np.float32, round=np.int32))

        @tff.tensorflow.computation(state_type, total_type)
        @tf.function
        def finish(state, total):
            return self._finish(state, total, accumulator, delta_bytes)

        def initialize():
            zeros = {"previous_loss": np.float32(0), "round": np.int32(0)}
            return {name: tff.federated_value(zero, tff.SERVER) for name, zero in zeros.items()}

        def next_fn(state, value, weight):
            clients = tff.federated_zip((value, weight))
            total = tff.federated_aggregate(clients, zero(), accumulate, merge, report)
            result, after, measurements = tff.federated_map(finish, (state, total))
            return after, result, measurements

        return build_process(initialize, next_fn, value_type, weight_type)

    def _finish(self, state: Any, total: Any, accumulator: Accumulator, delta_bytes: int):
        """`(result, new state, measurements)` of a round with these clients."""
        clients = total["clients"]
        if accumulator.buffer_size:
            clients = self._checked(clients)
        top = self._top_count(clients)
        sums = accumulator.drain(total, clients - top)
        mean_loss, change, adaptive = self._mediate(state, total["loss_total"], clients)
        result = self._result(sums, accumulator.layers, adaptive)
        some = clients > 0
        measurements = collections.OrderedDict(
            adaptive=tf.cast(adaptive, tf.int32),
            loss_change=tf.where(some, change, 0.0),
            mean_loss=mean_loss,
            clients=clients,
            top_clients=top,
            bytes_not_uploaded=tf.cast(clients - top, tf.int64) * delta_bytes,
            attention=attention_measurements(sums, accumulator.layers),
        )
        new_state = collections.OrderedDict(
            previous_loss=tf.where(some, mean_loss, state["previous_loss"]),
            round=state["round"] + tf.cast(some, tf.int32),
        )
        return result, new_state, measurements

    def _checked(self, clients: tf.Tensor) -> tf.Tensor:
        """`clients`; fails the round where the buffer may have been too small."""
        message = (
            f"FedMed was built for at most {self._max_clients} clients a round; "
            "set `max_clients` (the report goal) to more."
        )
        fits = tf.debugging.assert_less_equal(clients, self._max_clients, message)
        with tf.control_dependencies([fits]):
            return tf.identity(clients)

    def _top_count(self, clients: tf.Tensor) -> tf.Tensor:
        """`top_count` in TensorFlow."""
        exact = tf.cast(clients, tf.float64) * self.rule.top_fraction - _CEIL_SLACK
        return tf.minimum(clients, tf.maximum(1, tf.cast(tf.math.ceil(exact), tf.int32)))

    def _mediate(self, state: Any, loss_total: tf.Tensor, clients: tf.Tensor):
        """L(t) and its change in nats, and whether the adaptive rule is chosen; scalars."""
        mean_loss = tf.math.divide_no_nan(loss_total, tf.cast(clients, tf.float64))
        mean_loss = tf.cast(mean_loss, tf.float32)
        first = tf.equal(state["round"], 0)
        change = tf.where(first, 0.0, tf.abs(mean_loss - state["previous_loss"]))
        adaptive = tf.logical_or(first, change >= self.rule.mediation_threshold)
        return mean_loss, change, adaptive

    def _result(self, sums: Any, layers: Sequence[layers_lib.Layer], adaptive: tf.Tensor) -> Any:
        gammas = tf.math.reciprocal_no_nan(sums["exp_total"])
        means = tf.fill([len(layers)], tf.math.reciprocal_no_nan(sums["example_total"]))
        return tf.nest.map_structure(
            lambda a, b: tf.where(adaptive, a, b),
            layers_lib.scale_layers(sums["adaptive"], layers, gammas),
            layers_lib.scale_layers(sums["average"], layers, means),
        )


def _check_weight_type(weight_type: tff.Type, num_layers: int) -> None:
    expected = fedmed_weight_type(num_layers)
    if not expected.is_assignable_from(tff.to_type(weight_type)):
        raise TypeError(
            f"FedMed with {num_layers} layers needs client weights of type {expected}, "
            f"got {weight_type}: build the process with `build_fedmed`, whose clients tell them."
        )
