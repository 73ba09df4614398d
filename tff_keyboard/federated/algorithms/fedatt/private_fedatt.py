"""FedAtt with a privacy proof: bounded scores, one clipped record per client, noised once.

Per layer l with clip norm C_l, on the client:

    v_l = clip(delta_l, C_l),   a_l = exp(B (||v_l|| / C_l - 1))  in [e^-B, 1]
    record = (a_l v_l / C_l, lambda a_l) over all layers

Both parts of a layer are at most (1, lambda) in norm, so a record's norm is at most

    S = sqrt(L (1 + lambda^2))

and the sum of records moves by at most S when a person comes or goes. It is released once with
N(0, (z S)^2); what the server makes of it,

    result_l = C_l * numerator_l / max(denominator_l / lambda, floor),

is post-processing. So a round is one Gaussian mechanism of noise multiplier z, whatever the deltas.
Up to the common factor e^-B, weights are e^(B ||v|| / C) in [1, e^B]: FedAtt's softmax with
temperature C_l / B. With no noise, norms below C_l and a floor below every denominator it *is*
FedAtt. Derivation, choice of B and lambda, and the price: docs/privacy/private_fedatt.md.
"""

import collections
import math
from collections.abc import Sequence
from typing import Any

import dp_accounting
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.config.sections.privacy_config import Gaussian
from tff_keyboard.config.sections.rule_config import LayerGroups, PrivateFedAtt
from tff_keyboard.federated.aggregation import layers as layers_lib
from tff_keyboard.federated.aggregation.guards.finiteness import all_finite
from tff_keyboard.federated.aggregation.private.noised_sum import NoisedSumQuery


def record_sensitivity(num_layers: int, denominator_scale: float) -> float:
    """S, the largest L2 norm of a record.

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
    """What one client contributes, for any delta whatever: `numerator` and `denominator`.

    Deltas that are not finite contribute like zeros, so that no client can leave the bound. Of
    `layer_clip_norm` C > 0, `attention_bound` B >= 0 and `denominator_scale` lambda > 0;
    `numerator` is structured as `value`, `denominator` is float32 [layers].
    """
    value = tf.cond(
        all_finite(tf.nest.flatten(value)),
        lambda: value,
        lambda: tf.nest.map_structure(tf.zeros_like, value),
    )
    norms = layers_lib.layer_norms(value, layers, "2")  # float64: no delta overflows it
    clipped = tf.minimum(norms / layer_clip_norm, 1.0)
    attention = tf.exp(attention_bound * (clipped - 1.0))
    scale = attention * clipped / tf.where(norms > 0, norms, tf.ones_like(norms))
    return collections.OrderedDict(
        numerator=layers_lib.scale_layers(value, layers, scale),
        denominator=tf.cast(denominator_scale * attention, tf.float32),
    )


class PrivateFedAttFactory(tff.aggregators.UnweightedAggregationFactory):
    """FedAtt as one Gaussian mechanism.

    Every client counts: one that sends zeros still adds e^-B to the denominators, as the proof
    needs. A process of it needs `with_noise` around it (`aggregation/private/host_noise.py`):
    without the noise of its round the result is NaN. State is TFF's `DPAggregatorState`, whose
    event is `GaussianDpEvent(noise_multiplier)`. Measurements: `dp_query_metrics` and `dp` of the
    mechanism, and `noisy_attention_total`, per layer the noisy sum of attention weights (public,
    being released anyway), in clients of full attention.

    Args:
      rule: Config, which the next three arguments change where they are not None. None: B and the
        least denominator are 1, a layer for each tensor.
      attention_bound: B, >= 0; 0 is the plain mean of clipped deltas.
      denominator_floor: The least denominator, in clients of full attention, > 0.
      layer_groups: Group name -> variable names, or positions such as "0"; a partition. Few layers
        cost less noise, as S grows with their square root.
      noise_multiplier: z, noise standard deviation / S; 0 claims nothing.
      layer_clip_norm: C, the L2 bound on each layer, weight units, > 0.
      denominator_scale: lambda > 0.
      variable_names: Names of the tensors of a delta, in order; what `layer_groups` may name.

    Attributes:
      privacy: Config of the mechanism; `with_noise` takes it.

    Raises:
      ValueError: An argument is out of range.
    """

    def __init__(
        self,
        rule: PrivateFedAtt | None = None,
        *,
        attention_bound: float | None = None,
        denominator_floor: float | None = None,
        layer_groups: LayerGroups | None = None,
        noise_multiplier: float,
        layer_clip_norm: float,
        denominator_scale: float = 1.0,
        variable_names: Sequence[str] | None = None,
    ):
        for name, number in (
            ("layer_clip_norm", layer_clip_norm),
            ("denominator_scale", denominator_scale),
        ):
            if not (math.isfinite(number) and number > 0):
                raise ValueError(f"`{name}` must be > 0, got {number!r}.")
        if not (math.isfinite(noise_multiplier) and noise_multiplier >= 0):
            raise ValueError(f"`noise_multiplier` must be >= 0, got {noise_multiplier!r}.")
        rule = (rule or PrivateFedAtt()).changed(
            attention_bound=attention_bound,
            denominator_floor=denominator_floor,
            layer_groups=layer_groups,
        )
        self.privacy = Gaussian(clip_norm=layer_clip_norm, noise_multiplier=noise_multiplier)
        self._noise_multiplier = float(noise_multiplier)
        self._clip_norm = float(layer_clip_norm)
        self._bound = float(rule.attention_bound)
        self._scale = float(denominator_scale)
        self._floor = float(rule.denominator_floor)
        self._layer_groups = rule.layer_groups
        self._variable_names = variable_names

    def create(self, value_type: tff.Type) -> tff.templates.AggregationProcess:
        """The process, for these types."""
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
        # The query clips records to S once more: what is proved is enforced, were `record` wrong.
        query = NoisedSumQuery(
            specs=tff.types.type_to_tf_tensor_specs(record_type),
            clip_norm=record_sensitivity(len(layers), self._scale),
            noise_multiplier=self._noise_multiplier,
            event=dp_accounting.GaussianDpEvent(self._noise_multiplier),
        )
        mechanism = tff.aggregators.DifferentiallyPrivateFactory(query).create(record_type)

        @tff.tensorflow.computation(record_type)
        def ratio(total):
            weights = total["denominator"] / self._scale
            result = layers_lib.scale_layers(
                total["numerator"], layers, self._clip_norm / tf.maximum(weights, self._floor)
            )
            measured = collections.OrderedDict(
                (layer.name, weights[i]) for i, layer in enumerate(layers)
            )
            return result, measured

        @tff.federated_computation(
            mechanism.initialize.type_signature.result, tff.FederatedType(value_type, tff.CLIENTS)
        )
        def next_fn(state, value):
            output = mechanism.next(state, tff.federated_map(record, value))
            result, weights = tff.federated_map(ratio, output.result)
            measurements = collections.OrderedDict(
                mechanism=output.measurements, noisy_attention_total=weights
            )
            return tff.templates.MeasuredProcessOutput(
                output.state, result, tff.federated_zip(measurements)
            )

        return tff.templates.AggregationProcess(mechanism.initialize, next_fn)
