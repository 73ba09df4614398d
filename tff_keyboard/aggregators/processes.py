"""Builds an aggregation process from two functions, without TFF's decorators around each."""

import collections
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import tensorflow_federated as tff

AggregationProcess: TypeAlias = tff.templates.AggregationProcess
Factory: TypeAlias = tff.aggregators.WeightedAggregationFactory


def as_weighted(factory: Factory | tff.aggregators.UnweightedAggregationFactory) -> Factory:
    """Returns a weighted factory that drops the weights if `factory` is unweighted."""
    if isinstance(factory, tff.aggregators.UnweightedAggregationFactory):
        return tff.aggregators.as_weighted_aggregator(factory)
    return factory


def build_process(
    initialize: Callable[[], Any],
    next_fn: Callable[[Any, Any, Any], tuple[Any, Any, Any]],
    value_type: tff.Type,
    weight_type: tff.Type,
) -> AggregationProcess:
    """Builds a weighted aggregation process.

    Args:
      initialize: Returns the state: a value at the server, or a mapping of such values.
      next_fn: Maps the state at the server, and updates and weights at the clients, to state,
        result and measurements at the server. The first and the last may be mappings.
      value_type: Type of an update.
      weight_type: Type of a weight.
    """
    init_fn = tff.federated_computation(lambda: _zipped(initialize()))

    @tff.federated_computation(
        init_fn.type_signature.result,
        tff.FederatedType(value_type, tff.CLIENTS),
        tff.FederatedType(weight_type, tff.CLIENTS),
    )
    def measured_next(state, value, weight):
        after, result, measurements = next_fn(state, value, weight)
        return tff.templates.MeasuredProcessOutput(_zipped(after), result, _zipped(measurements))

    return tff.templates.AggregationProcess(init_fn, measured_next)


def no_state() -> tff.Value:
    """Returns the state of a stateless aggregator."""
    return tff.federated_value((), tff.SERVER)


def _zipped(values: Any) -> Any:
    """Returns a mapping of server values as one server value. Other values stay as they are."""
    if not isinstance(values, Mapping):
        return values
    return tff.federated_zip(collections.OrderedDict(values))
