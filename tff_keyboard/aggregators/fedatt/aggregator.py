"""FedAtt: attention over clients, layer by layer, by the distance that each client moved.

    s_k^l = ||theta^l - theta_k^l||_p,   alpha^l = softmax_k(s^l / temperature),
    theta^l <- theta^l - epsilon sum_k alpha_k^l (theta^l - theta_k^l)

The factory returns sum_k alpha_k^l delta_k^l. epsilon is the learning rate of the server's SGD, so
it can have a schedule (or it is `step`, if fixed). FedAvg with the same learning rate is the
control, because equal norms give equal weights. The clients that moved *furthest* get most
attention: of ten clients with norms 1, ..., 1, 10 the last one gets 99.9 %. Clip the updates first.

Source: Ji et al. 2019, eqs. 2-4 and Algorithm 3, https://arxiv.org/abs/1812.07108.
"""

import collections
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators import arguments
from tff_keyboard.aggregators import layers as layers_lib
from tff_keyboard.aggregators.arguments import LayerGroups
from tff_keyboard.aggregators.fedatt import online_softmax
from tff_keyboard.aggregators.processes import AggregationProcess, build_process, no_state
from tff_keyboard.storage.checks import require_one_of


class FedAttFactory(tff.aggregators.WeightedAggregationFactory):
    """Softmax-weighted mean of updates, in one aggregation, with memory independent of the cohort.

        aggregator = tk.aggregators.UpdateGuard(tk.aggregators.FedAtt(norm=2, temperature=0.5))

    A client counts if its weight is > 0, however large. Empty clients and rejected updates have
    weight 0. A round without counting clients gives zeros. No state. Measurements: `clients`
    (int32, clients that counted) and `attention`, per layer `entropy` (nats), `effective_clients`
    (its exponential), `maximum_weight` (in (0, 1]) and `maximum_score` (norm / temperature).

    Args:
      norm: Distance of a layer: 1, 2, "inf" or "spectral" (largest singular value of matrices, by
        power iteration, as in the authors' code).
      temperature: Attention is softmax(norm / temperature); > 0.
      layer_groups: Group name -> variable names, or positions such as "0"; a partition. With None,
        each tensor is a layer.
      step: Factor of the result, > 0.
      variable_names: Names of the tensors of an update, in order, for use in `layer_groups`.

    Raises:
      ValueError: If an argument is out of range; in `create`, if the groups are not a partition of
        the variables.
    """

    def __init__(
        self,
        norm: float | str = 2,
        *,
        temperature: float = 1.0,
        layer_groups: LayerGroups | None = None,
        step: float = 1.0,
        variable_names: Sequence[str] | None = None,
    ):
        self._norm = norm if isinstance(norm, str) else f"{norm:g}"
        require_one_of("norm", self._norm, ("1", "2", "inf", "spectral"))
        arguments.require_positive("temperature", temperature)
        arguments.require_positive("step", step)
        self._temperature = temperature
        self._layer_groups = layer_groups or {}
        self._step = step
        self._variable_names = variable_names

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class. `weight_type` must be a number."""
        layers_lib.require_float_tensors(value_type, "FedAtt")
        layers = layers_lib.resolve_layers(value_type, self._layer_groups, self._variable_names)
        specs = tff.types.type_to_tf_tensor_specs(value_type)

        @tff.tensorflow.computation
        def zero():
            return online_softmax.empty(specs, len(layers))

        accumulator_type = zero.type_signature.result

        @tff.tensorflow.computation(accumulator_type, tff.to_type([value_type, weight_type]))
        def accumulate(accumulator, client):
            value, weight = client
            norms = layers_lib.layer_norms(value, layers, self._norm, exact=False)
            scores = norms / self._temperature
            one = online_softmax.single(value, scores, tf.cast(weight, tf.float32) > 0)
            return online_softmax.merge(accumulator, one, layers)

        @tff.tensorflow.computation(accumulator_type, accumulator_type)
        def merge(a, b):
            return online_softmax.merge(a, b, layers)

        @tff.tensorflow.computation(accumulator_type)
        def report(accumulator):
            result = online_softmax.weighted_mean(accumulator, layers)
            if self._step != 1:
                result = layers_lib.scale_layers(result, layers, tf.fill([len(layers)], self._step))
            return result, collections.OrderedDict(
                clients=accumulator["clients"],
                attention=online_softmax.attention_measurements(accumulator, layers),
            )

        def next_fn(state, value, weight):
            clients = tff.federated_zip((value, weight))
            found = tff.federated_aggregate(clients, zero(), accumulate, merge, report)
            return state, found[0], found[1]

        return build_process(no_state, next_fn, value_type, weight_type)
