"""FedMed: weights by the divergence of each client's layers, or FedAvg, chosen in every round.

For client k and layer l, d_k^l is the Jensen-Shannon divergence between the layer's weights at the
server and at the client (converted to distributions, `js_divergence.py`):

    adaptive:  theta <- theta - eta sum_k gamma_k^l (theta^l - theta_k^l),  gamma^l = softmax_k(d^l)
    FedAvg:    theta <- theta - sum_k (n_k / n) (theta - theta_k)

Mediation chooses the branch. With L(t) the plain mean of the round's local losses, it is adaptive
while |L(t) - L(t - 1)| >= threshold, otherwise FedAvg. The first round has no L(t - 1) and is
adaptive. topK: of M clients only the K = ceil(fraction * M) with the lowest local loss contribute.
L(t) is over all M.

The aggregation needs one pass and works on several workers. The adaptive weights and K depend on
all clients. They could be computed in a first aggregation, but TFF cannot distribute an aggregation
that needs the result of another one. Therefore everything is in one aggregation. Each branch is a
sum over clients; both sums are computed, and the server uses one of them. A buffer contains the
clients that topK may leave out (`accumulator.py`). With N = `max_clients` these are at most
D = N - ceil(fraction * N) clients. The memory is two sums and D updates; D is 0 without topK.

gamma is always within a factor 2 of uniform, because JS <= ln 2. Compare with FedAvg at rate eta.

Source: Wu, Liang & Wang 2020, eqs. 2-9 and Algorithm 1, "FedMed: A Federated Learning Framework for
Language Modeling", https://doi.org/10.3390/s20144048.
"""

import collections
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators import layers as layers_lib
from tff_keyboard.aggregators.fedmed.accumulator import (
    Accumulator,
    attention_measurements,
    fedmed_weight_type,
)
from tff_keyboard.aggregators.processes import AggregationProcess, build_process
from tff_keyboard.aggregators.registry.fedmed import CEIL_SLACK, FedMedConfig
from tff_keyboard.aggregators.upload_size import raw_bytes
from tff_keyboard.parts.tables import documented_by
from tff_keyboard.storage.checks import require

LocalLoss: TypeAlias = Literal["during_training", "after_training"]


@documented_by(FedMedConfig)
class FedMedFactory(tff.aggregators.WeightedAggregationFactory):
    """Mediated adaptive aggregation with topK. Weights have the type `fedmed_weight_type(layers)`.

        factory = tk.aggregators.FedMed(top_fraction=0.5, max_clients=20)
        process = tk.algorithms.build_fedmed(model_fn, factory, ...)

    A client counts if its `num_examples` is > 0. Divergences are clipped to [0, ln 2], the range of
    correct ones. A round without counting clients gives zeros and does not change the state.

    State: `previous_loss` (float32, nats) and `round` (int32, rounds with counting clients).
    Measurements: `adaptive` (1 or 0), `loss_change` (nats; 0 in the first round), `mean_loss`,
    `clients` (M), `top_clients` (K), `bytes_not_uploaded` (int64, the updates of the other M - K
    clients: they are uploaded here, but a server that asks for losses first would never receive
    them), and `attention`, which has for each layer the `effective_clients` and `maximum_weight` of
    the adaptive weights.

    Args:
      max_clients: Maximum number of clients in a round. It limits topK's buffer: with topK, a round
        with more clients fails. It has no effect without topK.
      top_fraction: See `FedMedConfig`.
      mediation_threshold: See `FedMedConfig`.
      local_loss: See `FedMedConfig`.
      layer_groups: See `FedMedConfig`.
      variable_names: Names of the tensors of an update, in order, for use in `layer_groups`.

    Attributes:
      local_loss: See the argument. The client work reports this loss.

    Raises:
      ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        *,
        max_clients: int,
        top_fraction: float = FedMedConfig.top_fraction,
        mediation_threshold: float = FedMedConfig.mediation_threshold,
        local_loss: LocalLoss = FedMedConfig.local_loss,
        layer_groups: layers_lib.LayerGroups | None = None,
        variable_names: Sequence[str] | None = None,
    ):
        require(max_clients >= 1, "max_clients", "must be >= 1", max_clients)
        self._options = FedMedConfig.of_arguments(
            top_fraction=top_fraction,
            mediation_threshold=mediation_threshold,
            local_loss=local_loss,
            layer_groups=layer_groups or {},
        )
        self.local_loss = local_loss
        self._max_clients = max_clients
        self._variable_names = variable_names

    def layers_of(self, value_type: tff.Type) -> tuple[layers_lib.Layer, ...]:
        """Returns the layers of an update of this type; `fedmed_weight_type` takes their number."""
        return layers_lib.resolve_layers(
            value_type, self._options.layer_groups, self._variable_names
        )

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class.

        Raises `TypeError` if `weight_type` is not the `fedmed_weight_type` of the layers: use the
        client work of `build_scored_client_work`.
        """
        layers_lib.require_float_tensors(value_type, "FedMed")
        layers = self.layers_of(value_type)
        _check_weight_type(weight_type, len(layers))
        specs = tff.types.type_to_tf_tensor_specs(value_type)
        buffer_size = self._max_clients - self._options.top_count(self._max_clients)
        accumulator = Accumulator(specs, layers, buffer_size)
        delta_bytes = raw_bytes(value_type)

        @tff.tensorflow.computation
        def zero():
            return accumulator.zero()

        total_type = zero.type_signature.result

        @tff.tensorflow.computation(total_type, tff.to_type([value_type, weight_type]))
        @tf.function(autograph=False)
        def accumulate(total, client):
            return accumulator.insert(total, *client)

        @tff.tensorflow.computation(total_type, total_type)
        @tf.function(autograph=False)
        def merge(a, b):
            return accumulator.merge(a, b)

        report = tff.tensorflow.computation(lambda total: total, total_type)

        state_type = tff.to_type(collections.OrderedDict(previous_loss=np.float32, round=np.int32))

        @tff.tensorflow.computation(state_type, total_type)
        @tf.function(autograph=False)
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
        """Returns `(result, new state, measurements)` of a round with these clients."""
        clients = total["clients"]
        if accumulator.buffer_size:
            clients = self._checked_clients(clients)
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

    def _checked_clients(self, clients: tf.Tensor) -> tf.Tensor:
        """Returns `clients`. Fails the round if the buffer may have been too small."""
        message = (
            f"FedMed was built for at most {self._max_clients} clients per round. "
            "Raise `max_clients` (the report goal)."
        )
        fits = tf.debugging.assert_less_equal(clients, self._max_clients, message)
        with tf.control_dependencies([fits]):
            return tf.identity(clients)

    def _top_count(self, clients: tf.Tensor) -> tf.Tensor:
        """Computes `FedMedConfig.top_count` in TensorFlow."""
        exact = tf.cast(clients, tf.float64) * self._options.top_fraction - CEIL_SLACK
        return tf.minimum(clients, tf.maximum(1, tf.cast(tf.math.ceil(exact), tf.int32)))

    def _mediate(self, state: Any, loss_total: tf.Tensor, clients: tf.Tensor):
        """Returns L(t), its change in nats, and whether the adaptive branch is chosen."""
        mean_loss = tf.math.divide_no_nan(loss_total, tf.cast(clients, tf.float64))
        mean_loss = tf.cast(mean_loss, tf.float32)
        first = tf.equal(state["round"], 0)
        change = tf.where(first, 0.0, tf.abs(mean_loss - state["previous_loss"]))
        adaptive = tf.logical_or(first, change >= self._options.mediation_threshold)
        return mean_loss, change, adaptive

    def _result(self, sums: Any, layers: Sequence[layers_lib.Layer], adaptive: tf.Tensor) -> Any:
        """Returns the adaptive mean of the updates if `adaptive` (bool scalar), else FedAvg's."""
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
            f"got {weight_type}: build the process with `build_fedmed`, whose clients send them."
        )
