"""Broken updates never reach the model: NaN, infinity, a wrong shape, a senseless weight.

A refused client arrives at the inner aggregation as a delta of zeros with weight 0, so a weighted
mean, FedAtt, FedMed and medians leave it out, and a differentially private sum adds zeros. TFF's
own zeroing and clipping let NaN pass, because NaN > bound is false; this wraps outside them.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregation.layers import tensor_types


class UpdateGuardFactory(tff.aggregators.WeightedAggregationFactory):
    """Refuses and counts updates that cannot be averaged; hands the rest to `inner`.

    An update is refused when a tensor has a NaN or an infinity, when any number of its weight is
    not finite or is negative, or, with `expected_type`, when a tensor has another shape. State
    is that of `inner`. Measurements: `refused_non_finite`, `refused_shape` (int32 clients) and
    `inner`.

    Args:
      inner: A weighted factory. A weight may be a structure (FedMed); all of it becomes 0.
      expected_type: The delta's type, where `create` is given one with unknown dimensions of the
        same rank, as a server that trusts nobody sees it. None: TFF checks the shapes, and a
        wrong one stops the round before it begins.
    """

    def __init__(
        self,
        inner: tff.aggregators.WeightedAggregationFactory,
        expected_type: tff.Type | None = None,
    ):
        self._inner = inner
        self._expected_type = expected_type

    def create(
        self, value_type: tff.Type, weight_type: tff.Type
    ) -> tff.templates.AggregationProcess:
        """See base class.

        Raises:
          TypeError: `value_type` could never be a delta of `expected_type`.
        """
        expected_type = tff.to_type(self._expected_type or value_type)
        _check_compatible(tff.to_type(value_type), expected_type)
        inner = self._inner.create(expected_type, weight_type)
        specs = tff.types.type_to_tf_tensor_specs(expected_type)

        @tff.tensorflow.computation(value_type, weight_type)
        def guard(value, weight):
            fits = _all(
                tf.reduce_all(tf.equal(tf.shape(x), spec.shape))
                for x, spec in _pairs(value, specs)
                if spec.shape.rank
            )
            finite = tf.logical_and(
                _all(tf.reduce_all(tf.math.is_finite(x)) for x in tf.nest.flatten(value)),
                _all(_is_sensible(x) for x in tf.nest.flatten(weight)),
            )
            accepted = tf.logical_and(fits, finite)
            flat = [_accepted_tensor(x, spec, accepted) for x, spec in _pairs(value, specs)]
            safe_weight = tf.nest.map_structure(
                lambda x: tf.where(accepted, x, tf.zeros_like(x)), weight
            )
            return (
                tf.nest.pack_sequence_as(specs, flat),
                safe_weight,
                tf.cast(tf.logical_and(fits, tf.logical_not(finite)), tf.int32),
                tf.cast(tf.logical_not(fits), tf.int32),
            )

        @tff.federated_computation(
            inner.initialize.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            safe, safe_weight, non_finite, misshapen = tff.federated_map(guard, (value, weight))
            output = inner.next(state, safe, safe_weight)
            measurements = collections.OrderedDict(
                refused_non_finite=tff.federated_sum(non_finite),
                refused_shape=tff.federated_sum(misshapen),
                inner=output.measurements,
            )
            return tff.templates.MeasuredProcessOutput(
                output.state, output.result, tff.federated_zip(measurements)
            )

        return tff.templates.AggregationProcess(inner.initialize, next_fn)


def _pairs(value: Any, specs: Any):
    return zip(tf.nest.flatten(value), tf.nest.flatten(specs), strict=True)


def _all(conditions) -> tf.Tensor:
    return tf.reduce_all(tf.stack([tf.constant(True), *conditions]))


def _is_sensible(weight: tf.Tensor) -> tf.Tensor:
    if not weight.dtype.is_floating:
        return tf.reduce_all(weight >= 0)
    return tf.reduce_all(tf.logical_and(tf.math.is_finite(weight), weight >= 0))


def _accepted_tensor(tensor: tf.Tensor, spec: tf.TensorSpec, accepted: tf.Tensor) -> tf.Tensor:
    zeros = tf.zeros(spec.shape, spec.dtype)
    if tensor.shape == spec.shape:
        return tf.where(accepted, tensor, zeros)
    # The branch matters here: a misshapen tensor cannot even be reshaped.
    return tf.cond(accepted, lambda: tf.reshape(tensor, spec.shape), lambda: zeros)


def _check_compatible(value_type: tff.Type, expected_type: tff.Type) -> None:
    received, expected = tensor_types(value_type), tensor_types(expected_type)
    if len(received) != len(expected) or any(
        r.dtype != e.dtype or len(r.shape) != len(e.shape)
        for r, e in zip(received, expected, strict=True)
    ):
        raise TypeError(f"Deltas of type {value_type} cannot be of the expected {expected_type}.")
