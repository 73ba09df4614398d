"""Zeroing and clipping of whole updates by their norm, as in TFF, without temporary tensors.

    zeroing    delta_k -> 0                            if max |delta_k| > bound
    clipping   delta_k -> delta_k bound / ||delta_k||   if ||delta_k||_2 > bound

State, measurements and mathematics are those of `tff.aggregators.zeroing_factory` (infinity norm)
and `clipping_factory`, and checkpoints are compatible. TFF writes |x| and x^2 to memory before it
reduces them, which takes as long as the training of a client with little text. Here the norms are
`max(max x, -min x)` and `tf.nn.l2_loss`; the latter rounds differently.

Each bound limits one update in its own round, whatever the client sends. An adaptive bound does not
limit attackers over many rounds, because it counts their norms. It settles where the share q of all
updates is below it. With a share a of attackers it is therefore, in the long run, between two
quantiles F^-1 of the honest norms:

    F^-1((q - a) / (1 - a)) <= bound <= F^-1(q / (1 - a))

Attackers with a > q can let it shrink to zero, and with a > 1 - q they can let it grow without
limit: more than 20 % of the clients for clipping with q = 0.8, but more than 2 % for zeroing, which
follows the 98 % quantile of the largest coordinates. An update that `UpdateGuard` rejects counts
with norm 0. Set a fixed bound if more clients may attack.

Source of the adaptive bounds: Andrew et al. 2021, https://arxiv.org/abs/1905.03871.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.aggregators.layers import require_factory, require_float_tensors
from tff_keyboard.aggregators.processes import AggregationProcess, Factory, build_process
from tff_keyboard.storage.checks import POSITIVE

Bound: TypeAlias = Any  # a float, or a `tff.templates.EstimationProcess`


class _Kind(NamedTuple):
    """A protection, zeroing or clipping.

    Attributes:
      doing: Name of its state and measurements, "zeroing".
      done: Name of the count of the clients above the bound, "zeroed".
      norm: Returns the norm of a list of tensors.
      reduced: Returns a tensor of an update above the bound, given (tensor, norm, bound).
    """

    doing: str
    done: str
    norm: Callable[[list[tf.Tensor]], tf.Tensor]
    reduced: Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]  # tensor, norm, bound


def infinity_norm(tensors: list[tf.Tensor]) -> tf.Tensor:
    """Returns max |x| over all tensors, float32; 0 without tensors."""
    largest = [tf.maximum(tf.reduce_max(x), -tf.reduce_min(x)) for x in tensors]
    return tf.reduce_max(tf.stack([tf.constant(0.0), *(tf.cast(x, tf.float32) for x in largest)]))


def l2_norm(tensors: list[tf.Tensor]) -> tf.Tensor:
    """Returns the norm of all tensors together, float32."""
    halves = [tf.cast(tf.nn.l2_loss(x), tf.float32) for x in tensors]
    return tf.sqrt(2.0 * tf.reduce_sum(tf.stack([tf.constant(0.0), *halves])))


_ZEROING = _Kind("zeroing", "zeroed", infinity_norm, lambda x, norm, bound: tf.zeros_like(x))
_CLIPPING = _Kind(
    "clipping", "clipped", l2_norm, lambda x, norm, bound: x / tf.cast(norm / bound, x.dtype)
)


def zeroing_factory(bound: Bound, inner: Factory) -> Factory:
    """Sets an update to zero if a coordinate is beyond `bound`. The update keeps its weight.

        aggregator = tk.aggregators.zeroing(10.0, tk.aggregators.FedAtt(2))

    Args:
      bound: A number > 0, or a process that follows the clients' norms.
      inner: Aggregates the updates. Its measurements are under `zeroing`, next to `zeroing_norm`
        and `zeroed_count`.
    """
    return _NormBoundFactory(_ZEROING, bound, inner)


def clipping_factory(bound: Bound, inner: Factory) -> Factory:
    """Scales updates that are longer than `bound` down to it.

        aggregator = tk.aggregators.clipping(0.5, tk.aggregators.FedAtt(2))

    Args:
      bound: A number > 0, or a process that follows the clients' norms.
      inner: Aggregates the clipped updates. Its measurements are under `clipping`, next to
        `clipping_norm` and `clipped_count`.
    """
    return _NormBoundFactory(_CLIPPING, bound, inner)


class _NormBoundFactory(tff.aggregators.WeightedAggregationFactory):
    """Zeroes or clips the updates whose norm is above `bound`, then aggregates with `inner`.

    `bound` is a number, or a process that estimates it from the norms of each round.
    """

    def __init__(self, kind: _Kind, bound: Bound, inner: Factory):
        require_factory(inner)
        is_number = isinstance(bound, int | float) and not isinstance(bound, bool)
        if not is_number and not isinstance(bound, tff.templates.EstimationProcess):
            raise TypeError(
                "`bound` must be a number or a tff.templates.EstimationProcess, got "
                f"{type(bound).__name__}."
            )
        if is_number:
            POSITIVE.check("bound", bound)
        self._kind = kind
        self._bound = _constant(float(bound)) if is_number else bound
        self._inner = inner

    def create(self, value_type: tff.Type, weight_type: tff.Type) -> AggregationProcess:
        require_float_tensors(value_type, f"`{self._kind.doing}`")
        kind, bound = self._kind, self._bound
        inner = self._inner.create(value_type, weight_type)
        count = tff.aggregators.SumFactory().create(tff.TensorType(np.int32))

        @tff.tensorflow.computation(value_type, np.float32)
        def bounded(value: Any, limit: tf.Tensor) -> Any:
            """Returns the bounded update, its norm before, and 1 if the norm was above, else 0."""
            norm = kind.norm(tf.nest.flatten(value))
            exceeds = norm > limit
            result = tf.cond(
                exceeds,
                lambda: tf.nest.map_structure(lambda x: kind.reduced(x, norm, limit), value),
                lambda: value,
            )
            return result, norm, tf.cast(exceeds, tf.int32)

        def initialize():
            return {
                f"{kind.doing}_norm": bound.initialize(),
                "inner_agg": inner.initialize(),
                f"{kind.done}_count_agg": count.initialize(),
            }

        def next_fn(state, value, weight):
            bound_state, inner_state, count_state = state
            limit = bound.report(bound_state)
            result, norm, exceeds = tff.federated_map(
                bounded, (value, tff.federated_broadcast(limit))
            )
            output = inner.next(inner_state, result, weight)
            exceeding = count.next(count_state, exceeds)
            after = {
                f"{kind.doing}_norm": bound.next(bound_state, norm),
                "inner_agg": output.state,
                f"{kind.done}_count_agg": exceeding.state,
            }
            measurements = {
                kind.doing: output.measurements,
                f"{kind.doing}_norm": limit,
                f"{kind.done}_count": exceeding.result,
            }
            return after, output.result, measurements

        return build_process(initialize, next_fn, value_type, weight_type)


def _constant(bound: float) -> tff.templates.EstimationProcess:
    """Returns the estimation process of a constant bound."""

    @tff.federated_computation
    def initialize():
        return tff.federated_value((), tff.SERVER)

    @tff.federated_computation(
        initialize.type_signature.result, tff.FederatedType(np.float32, tff.CLIENTS)
    )
    def next_fn(state, norm):
        del norm
        return state

    @tff.federated_computation(initialize.type_signature.result)
    def report(state):
        del state
        return tff.federated_value(np.float32(bound), tff.SERVER)

    return tff.templates.EstimationProcess(initialize, next_fn, report)
