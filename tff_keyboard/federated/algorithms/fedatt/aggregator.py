"""FedAtt: attention over clients, layer by layer, by the distance each client moved.

    s_k^l = ||theta^l - theta_k^l||_p,   alpha^l = softmax_k(s^l / temperature),
    theta^l <- theta^l - epsilon sum_k alpha_k^l (theta^l - theta_k^l)

The factory gives sum_k alpha_k^l delta_k^l; epsilon is the learning rate of the server's SGD, so it
can be scheduled (or `step`, where that is fixed), and FedAvg with that learning rate is the
control: equal norms give equal weights. Attention goes to whoever moved *furthest*: of ten clients
with norms 1, ..., 1, 10 the last gets 99.9 %. Clip deltas first.

Source: Ji et al. 2019, eqs. 2-4 and Algorithm 3, https://arxiv.org/abs/1812.07108.
"""

import collections
import math
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config.sections.rule_config import FedAtt, LayerGroups
from tff_keyboard.federated.aggregation import layers as layers_lib
from tff_keyboard.federated.aggregation.processes import AggregationProcess, build_process, no_state
from tff_keyboard.federated.algorithms.fedatt import online_softmax


class FedAttFactory(tff.aggregators.WeightedAggregationFactory):
    """Softmax-weighted mean of deltas, one aggregation, memory flat in clients.

    A client counts when its weight is > 0, however large: empty clients and refused updates come
    with weight 0. A round where nobody counts gives zeros. No state. Measurements: `clients`
    (int32, who counted) and `attention`, per layer `entropy` (nats), `effective_clients`
    (its exponential), `maximum_weight` (in (0, 1]) and `maximum_score` (norm / temperature).

    Args:
      rule: Config, which the other arguments change where they are not None. None: norm 2,
        temperature 1, a layer for each tensor.
      norm: Distance of a layer: 1, 2, "inf" or "spectral" (matrices by their largest singular
        value, found by power iteration, as in the authors' code).
      temperature: Attention is softmax(norm / temperature); > 0.
      layer_groups: Group name -> variable names, or positions such as "0"; a partition.
      step: Factor of the result, > 0.
      variable_names: Names of the tensors of a delta, in order; what `layer_groups` may name.

    Raises:
      ValueError: An argument is out of range; in `create`, groups are no partition of variables.
    """

    def __init__(
        self,
        rule: FedAtt | None = None,
        *,
        norm: float | str | None = None,
        temperature: float | None = None,
        layer_groups: LayerGroups | None = None,
        step: float = 1.0,
        variable_names: Sequence[str] | None = None,
    ):
        if not (math.isfinite(step) and step > 0):
            raise ValueError(f"`step` must be > 0, got {step!r}.")
        if isinstance(norm, int | float):
            norm = f"{norm:g}"
        self._rule = (rule or FedAtt()).changed(
            norm=norm, temperature=temperature, layer_groups=layer_groups
        )
        self._step = step
        self._variable_names = variable_names

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class; `weight_type` is a number."""
        layers_lib.require_float_tensors(value_type, "FedAtt")
        layers = layers_lib.resolve_layers(
            value_type, self._rule.layer_groups, self._variable_names
        )
        specs = tff.types.type_to_tf_tensor_specs(value_type)

        @tff.tensorflow.computation
        def zero():
            return online_softmax.empty(specs, len(layers))

        accumulator_type = zero.type_signature.result

        @tff.tensorflow.computation(accumulator_type, tff.to_type([value_type, weight_type]))
        def accumulate(accumulator, client):
            value, weight = client
            norms = layers_lib.layer_norms(value, layers, self._rule.norm, exact=False)
            scores = norms / self._rule.temperature
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
