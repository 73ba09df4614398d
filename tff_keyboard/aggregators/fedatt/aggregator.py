"""FedAtt: attention over clients, layer by layer, by the distance that each client moved.

    s_k^l = ||theta^l - theta_k^l||_p,   alpha^l = softmax_k(s^l / temperature),
    theta^l <- theta^l - epsilon sum_k alpha_k^l (theta^l - theta_k^l)

The factory returns sum_k alpha_k^l delta_k^l. epsilon is the learning rate of the server's SGD,
which can follow a schedule. A fixed epsilon can be passed as `step` instead. FedAvg with the same
learning rate is the control, because equal norms give equal weights. The clients that moved
*furthest* get most attention: of ten clients with norms 1, ..., 1, 10 the last one gets 99.9 %.
Clip the updates first.

The softmax-weighted mean is computed in one pass over the clients, for scores of any size. In the
following formulas, s_k is the distance of client k in one layer, divided by the temperature.
For each layer, the accumulator contains these values of the clients so far:

    m = max s_k,   z = sum e^(s_k - m),   t = sum e^(s_k - m) (s_k - m),
    v = sum e^(s_k - m) delta_k

Two accumulators are merged by rescaling to the larger m. Then sum_k alpha_k delta_k = v / z, and
the entropy of alpha is log z - t / z. The memory does not grow with the number of clients, merging
is associative and commutative (up to rounding), and nothing overflows. This is a single
aggregation, so TFF can distribute it over several workers. It could not distribute two aggregations
of which the second needs the result of the first, such as a maximum and then a sum.

Sources: Ji et al. 2019, eqs. 2-4 and Algorithm 3, https://arxiv.org/abs/1812.07108; the online
softmax: Milakov & Gimelshein 2018, https://arxiv.org/abs/1805.02867.
"""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators import layers as layers_lib
from tff_keyboard.aggregators.processes import AggregationProcess, build_process, no_state
from tff_keyboard.aggregators.registry.fedatt import FedAttConfig
from tff_keyboard.parts.tables import documented_by
from tff_keyboard.storage.checks import POSITIVE

# The maximum over no clients: finite, and so small in size that differences are finite, too.
_LOWEST = np.finfo(np.float64).min / 4

Accumulator = collections.OrderedDict


@documented_by(FedAttConfig)
class FedAttFactory(tff.aggregators.WeightedAggregationFactory):
    """Softmax-weighted mean of updates, in one aggregation, with memory independent of the cohort.

        aggregator = tk.aggregators.UpdateGuard(tk.aggregators.FedAtt(norm=2, temperature=0.5))

    A client counts if its weight is > 0; the size of the weight has no effect. Empty clients and
    rejected updates have weight 0. A round without counting clients gives zeros. No state.
    Measurements: `clients` (int32, clients that counted) and `attention`, which has for each layer
    `entropy` (nats), `effective_clients` (its exponential), `maximum_weight` (in (0, 1]) and
    `maximum_score` (norm / temperature).

    Args:
      norm: See `FedAttConfig`.
      temperature: See `FedAttConfig`.
      layer_groups: See `FedAttConfig`.
      step: Factor of the result, > 0.
      variable_names: Names of the tensors of an update, in order, for use in `layer_groups`.

    Raises:
      ValueError: If an argument is out of range; in `create`, if the groups are not a partition of
        the variables.
    """

    def __init__(
        self,
        norm: float | str = FedAttConfig.norm,
        *,
        temperature: float = FedAttConfig.temperature,
        layer_groups: layers_lib.LayerGroups | None = None,
        step: float = 1.0,
        variable_names: Sequence[str] | None = None,
    ):
        self._options = FedAttConfig.of_arguments(
            norm=norm if isinstance(norm, str) else f"{norm:g}",
            temperature=temperature,
            layer_groups=layer_groups or {},
        )
        POSITIVE.check("step", step)
        self._step = step
        self._variable_names = variable_names

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        """See base class. `weight_type` must be a number."""
        layers_lib.require_float_tensors(value_type, "FedAtt")
        layers = layers_lib.resolve_layers(
            value_type, self._options.layer_groups, self._variable_names
        )
        specs = tff.types.type_to_tf_tensor_specs(value_type)

        @tff.tensorflow.computation
        def zero():
            return empty_accumulator(specs, len(layers))

        accumulator_type = zero.type_signature.result

        @tff.tensorflow.computation(accumulator_type, tff.to_type([value_type, weight_type]))
        def accumulate(accumulator, client):
            value, weight = client
            norms = layers_lib.layer_norms(value, layers, self._options.norm, exact=False)
            scores = norms / self._options.temperature
            one = client_accumulator(value, scores, tf.cast(weight, tf.float32) > 0)
            return merge_accumulators(accumulator, one, layers)

        @tff.tensorflow.computation(accumulator_type, accumulator_type)
        def merge(a, b):
            return merge_accumulators(a, b, layers)

        @tff.tensorflow.computation(accumulator_type)
        def report(accumulator):
            result = weighted_mean(accumulator, layers)
            if self._step != 1:
                result = layers_lib.scale_layers(result, layers, tf.fill([len(layers)], self._step))
            return result, collections.OrderedDict(
                clients=accumulator["clients"],
                attention=attention_measurements(accumulator, layers),
            )

        def next_fn(state, value, weight):
            clients = tff.federated_zip((value, weight))
            aggregate = tff.federated_aggregate(clients, zero(), accumulate, merge, report)
            return state, aggregate[0], aggregate[1]

        return build_process(no_state, next_fn, value_type, weight_type)


def empty_accumulator(value_specs: Any, num_layers: int) -> Accumulator:
    """Returns the accumulator without clients."""
    return collections.OrderedDict(
        maximum=tf.fill([num_layers], tf.constant(_LOWEST, tf.float64)),
        total=tf.zeros([num_layers], tf.float64),
        score_total=tf.zeros([num_layers], tf.float64),
        clients=tf.constant(0),
        value=tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), value_specs),
    )


def client_accumulator(value: Any, scores: tf.Tensor, counts: tf.Tensor) -> Accumulator:
    """Returns the accumulator of one client, with finite `scores`, float64 [layers].

    If the bool scalar `counts` is false, the client is left out completely.
    """
    present = tf.fill(tf.shape(scores), tf.cast(counts, tf.float64))
    # Unlike `tf.where`, a condition does not copy the update of a client that counts.
    update = tf.cond(counts, lambda: value, lambda: tf.nest.map_structure(tf.zeros_like, value))
    return collections.OrderedDict(
        maximum=tf.where(
            counts, scores, tf.fill(tf.shape(scores), tf.constant(_LOWEST, tf.float64))
        ),
        total=present,
        score_total=tf.zeros_like(scores),
        clients=tf.cast(counts, tf.int32),
        value=update,
    )


def merge_accumulators(
    a: Accumulator, b: Accumulator, layers: Sequence[layers_lib.Layer]
) -> Accumulator:
    """Returns the accumulator of the clients in `a` and `b`."""
    maximum = tf.maximum(a["maximum"], b["maximum"])
    rescaled = [_rescaled(side, maximum, layers) for side in (a, b)]
    return collections.OrderedDict(
        maximum=maximum,
        total=rescaled[0][0] + rescaled[1][0],
        score_total=rescaled[0][1] + rescaled[1][1],
        clients=a["clients"] + b["clients"],
        value=tf.nest.map_structure(tf.add, rescaled[0][2], rescaled[1][2]),
    )


def _rescaled(side: Accumulator, maximum: tf.Tensor, layers: Sequence[layers_lib.Layer]):
    """Returns the sums of one side as if its largest score were `maximum`.

    The sums are, per layer, of exp(score - maximum), of its product with score - maximum, and of
    the weighted updates.
    """
    down = side["maximum"] - maximum  # <= 0; about -4.5e307 for a side without clients
    factor = tf.exp(down)
    # 0 * -4.5e307 is 0, as required: factor, total and score_total are 0 for such a side.
    score_total = factor * (side["score_total"] + side["total"] * down)
    return (
        factor * side["total"],
        score_total,
        layers_lib.scale_layers(side["value"], layers, factor),
    )


def weighted_mean(accumulator: Accumulator, layers: Sequence[layers_lib.Layer]) -> Any:
    """Returns sum_k alpha_k delta_k, or zeros if no client counted."""
    return layers_lib.scale_layers(
        accumulator["value"], layers, tf.math.reciprocal_no_nan(accumulator["total"])
    )


def attention_measurements(accumulator: Accumulator, layers: Sequence[layers_lib.Layer]) -> Any:
    """Returns each layer's entropy (nats), effective clients e^entropy, maximum weight and score.

    All are 0 if no client counted.
    """
    some = accumulator["clients"] > 0
    total = accumulator["total"]
    entropy = tf.math.log(tf.maximum(total, 1e-300)) - tf.math.divide_no_nan(
        accumulator["score_total"], total
    )
    entropy = tf.maximum(entropy, 0.0)  # rounding can give -0 if one client has all the weight
    nothing = tf.zeros_like(total)
    columns = collections.OrderedDict(
        entropy=tf.where(some, entropy, nothing),
        effective_clients=tf.where(some, tf.exp(entropy), nothing),
        maximum_weight=tf.math.reciprocal_no_nan(total),
        maximum_score=tf.where(some, accumulator["maximum"], nothing),
    )
    return collections.OrderedDict(
        (
            layer.name,
            collections.OrderedDict(
                (name, tf.cast(column[i], tf.float32)) for name, column in columns.items()
            ),
        )
        for i, layer in enumerate(layers)
    )
