"""FedAtt with a privacy proof: bounded scores, one clipped record per client, noised once.

Per layer l with clip norm C_l, on the client:

    v_l = clip(delta_l, C_l),   a_l = exp(B (||v_l|| / C_l - 1))  in [e^-B, 1]
    record = (a_l v_l / C_l, lambda a_l) over all layers

The two parts of a layer have norms of at most 1 and lambda, so a record's norm is at most

    S = sqrt(L (1 + lambda^2))

and the sum of records changes by at most S if a client is added or removed. It is released once
with noise N(0, (z S)^2). The server's result

    result_l = C_l * numerator_l / max(denominator_l / lambda, floor)

is post-processing. A round is therefore one Gaussian mechanism with noise multiplier z, for any
updates. Up to the common factor e^-B, weights are e^(B ||v|| / C) in [1, e^B]: FedAtt's softmax
with temperature C_l / B. Without noise, with norms below C_l and a floor below every denominator,
it *is* FedAtt. Derivation, choice of B and lambda, and the cost: docs/privacy/private_fedatt.md.
"""

import collections
import math
from collections.abc import Mapping, Sequence
from typing import Any

import dp_accounting
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators import layers as layers_lib
from tff_keyboard.aggregators.guards.update_guard import all_finite
from tff_keyboard.aggregators.private.noised_sum import NoisedSumQuery
from tff_keyboard.aggregators.registry.private_fedatt import PrivateFedAttConfig
from tff_keyboard.parts.tables import documented_by
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.storage.checks import NOT_NEGATIVE, POSITIVE


def record_sensitivity(num_layers: int, denominator_scale: float) -> float:
    """Returns S, the largest L2 norm of a record.

    >>> record_sensitivity(2, 1.0)
    2.0
    """
    return math.sqrt(num_layers * (1 + denominator_scale**2))


def attention_record(
    value: Any,
    layers: Sequence[layers_lib.Layer],
    *,
    layer_clip_norm: float,
    attention_bound: float,
    denominator_scale: float,
) -> collections.OrderedDict:
    """Returns one client's record for any update: `numerator` and `denominator`.

    An update that is not finite contributes like zeros, so that no client can exceed the bound.

    Args:
      value: The update.
      layers: Its layers.
      layer_clip_norm: C > 0.
      attention_bound: B >= 0.
      denominator_scale: lambda > 0.

    Returns:
      `numerator` in the structure of `value`, and `denominator`, float32 [layers].
    """
    value = tf.cond(
        all_finite(tf.nest.flatten(value)),
        lambda: value,
        lambda: tf.nest.map_structure(tf.zeros_like, value),
    )
    norms = layers_lib.layer_norms(value, layers, "2")  # float64, which no update overflows
    clipped = tf.minimum(norms / layer_clip_norm, 1.0)
    attention = tf.exp(attention_bound * (clipped - 1.0))
    scale = attention * clipped / tf.where(norms > 0, norms, tf.ones_like(norms))
    return collections.OrderedDict(
        numerator=layers_lib.scale_layers(value, layers, scale),
        denominator=tf.cast(denominator_scale * attention, tf.float32),
    )


@documented_by(PrivateFedAttConfig)
class PrivateFedAttFactory(tff.aggregators.UnweightedAggregationFactory):
    """FedAtt as one Gaussian mechanism.

        aggregator = tk.aggregators.PrivateFedAtt(noise_multiplier=1.0, layer_clip_norm=0.1)

    Every client counts: a client that sends zeros still adds e^-B to the denominators, as the proof
    requires. TensorFlow draws the noise of a round unless `with_noise` supplies it. `with_noise`
    computes the noise in double precision from a secret key (`algorithms/rounds/noised.py`).
    The state is TFF's `DPAggregatorState`; its event is `GaussianDpEvent(noise_multiplier)`.
    Measurements: `dp_query_metrics` and `dp` of the mechanism, and `noisy_attention_total`, which
    has for each layer the noisy sum of attention weights. A client with full attention adds 1 to
    this sum. The sum is public, because it is released anyway.

    Args:
      attention_bound: See `PrivateFedAttConfig`.
      denominator_floor: See `PrivateFedAttConfig`.
      layer_groups: See `PrivateFedAttConfig`.
      noise_multiplier: z, noise standard deviation / S; 0 gives no guarantee.
      layer_clip_norm: C, the L2 bound on each layer, in weight units, > 0.
      denominator_scale: lambda > 0.
      variable_names: Names of the tensors of an update, in order, for use in `layer_groups`.
      draws_noise: Whether TensorFlow draws the noise of a round if `with_noise` does not supply it.
        If False, such a round fails.

    Raises:
      ValueError: If an argument is out of range.
    """

    def __init__(
        self,
        *,
        attention_bound: float = PrivateFedAttConfig.attention_bound,
        denominator_floor: float = PrivateFedAttConfig.denominator_floor,
        layer_groups: layers_lib.LayerGroups | None = None,
        noise_multiplier: float,
        layer_clip_norm: float,
        denominator_scale: float = 1.0,
        variable_names: Sequence[str] | None = None,
        draws_noise: bool = True,
    ):
        options = PrivateFedAttConfig.of_arguments(
            attention_bound=attention_bound,
            denominator_floor=denominator_floor,
            layer_groups=layer_groups or {},
        )
        NOT_NEGATIVE.check("noise_multiplier", noise_multiplier)
        POSITIVE.check("layer_clip_norm", layer_clip_norm)
        POSITIVE.check("denominator_scale", denominator_scale)
        self._noise_multiplier = float(noise_multiplier)
        self._clip_norm = float(layer_clip_norm)
        self._bound = float(options.attention_bound)
        self._scale = float(denominator_scale)
        self._floor = float(options.denominator_floor)
        self._layer_groups = options.layer_groups
        self._variable_names = variable_names
        self._draws_noise = draws_noise

    @property
    def noise_facts(self) -> Mapping[str, float | str]:
        """Name -> value: everything in this factory that its noise depends on.

        `algorithms.with_noise` binds the noise key to these values; see `PrivateMeanFactory`.
        """
        return {
            "noise_multiplier": self._noise_multiplier,
            "layer_clip_norm": self._clip_norm,
            "attention_bound": self._bound,
            "denominator_scale": self._scale,
            "denominator_floor": self._floor,
            "layer_groups": repr(self._layer_groups),
            "variable_names": repr(self._variable_names),
        }

    def noise_mechanism(
        self, *, rounds: int, min_separation_rounds: int = 1, momentum: float = 0.0
    ) -> Gaussian:
        """Returns the mechanism whose noise the rounds need; see `with_noise`."""
        del rounds, min_separation_rounds, momentum  # the rounds are independent
        return Gaussian()

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """Creates the process for these types."""
        layers_lib.require_float_tensors(value_type, "Private FedAtt")
        layers = layers_lib.resolve_layers(value_type, self._layer_groups, self._variable_names)

        @tff.tensorflow.computation(value_type)
        def record(value):
            return attention_record(
                value,
                layers,
                layer_clip_norm=self._clip_norm,
                attention_bound=self._bound,
                denominator_scale=self._scale,
            )

        record_type = record.type_signature.result
        # The query clips records to S again, which enforces the bound even if `record` had a bug.
        query = NoisedSumQuery(
            specs=tff.types.type_to_tf_tensor_specs(record_type),
            clip_norm=record_sensitivity(len(layers), self._scale),
            noise_multiplier=self._noise_multiplier,
            event=dp_accounting.GaussianDpEvent(self._noise_multiplier),
            draws_noise=self._draws_noise,
        )
        noised = tff.aggregators.DifferentiallyPrivateFactory(query).create(record_type)

        @tff.tensorflow.computation(record_type)
        def ratio(total):
            """Returns the attention-weighted means of the layers, and the layers' attention."""
            weights = total["denominator"] / self._scale
            result = layers_lib.scale_layers(
                total["numerator"], layers, self._clip_norm / tf.maximum(weights, self._floor)
            )
            measured = collections.OrderedDict(
                (layer.name, weights[i]) for i, layer in enumerate(layers)
            )
            return result, measured

        @tff.federated_computation(
            noised.initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(state, value):
            output = noised.next(state, tff.federated_map(record, value))
            result, weights = tff.federated_map(ratio, output.result)
            measurements = collections.OrderedDict(
                mechanism=output.measurements, noisy_attention_total=weights
            )
            return tff.templates.MeasuredProcessOutput(
                output.state, result, tff.federated_zip(measurements)
            )

        return tff.templates.AggregationProcess(noised.initialize, next_fn)
