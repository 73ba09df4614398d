"""The layers of FedAtt, FedMed and private FedAtt, and arithmetic on layers.

A layer is a named group of the tensors of an update: each tensor by itself, or the groups in a
config (embedding, recurrence, output). Tensors are identified by their position in the update, in
the order of `trainable_variables`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.parts.aggregator import layer_groups_problem

POWER_ITERATIONS = 50
# Group name -> names of variables, or positions such as "0"
LayerGroups: TypeAlias = Mapping[str, Sequence[str]]
_START_VECTOR_SEED = (2019, 6)  # a fixed seed, because the norm must depend only on the update


@dataclasses.dataclass(frozen=True)
class Layer:
    """A named, non-empty group of tensor positions."""

    name: str
    positions: tuple[int, ...]


def resolve_layers(
    value_type: tff.Type,
    groups: Mapping[str, Sequence[int | str]] | None = None,
    variable_names: Sequence[str] | None = None,
) -> tuple[Layer, ...]:
    """Returns the layers of an update.

    Args:
      value_type: Type of the update.
      groups: Group name -> variable names or positions ("0" is 0 unless a variable has this name),
        with every tensor in exactly one group. With None or {}, each tensor is a layer.
      variable_names: Names of the tensors, in order. Without them only positions can be used.

    Raises:
      ValueError: If a group is empty, a member is unknown, or the groups are not a partition.
    """
    count = len(tensor_types(value_type))
    if variable_names is not None and len(variable_names) != count:
        raise ValueError(
            f"`variable_names` must have one name for each of the {count} tensors of an update, "
            f"got {len(variable_names)}."
        )
    names = list(variable_names or [f"layer_{i}" for i in range(count)])
    if not groups:
        return tuple(Layer(name, (i,)) for i, name in enumerate(names))
    if problem := layer_groups_problem(groups, "layer_groups"):
        raise ValueError(problem)
    layers = []
    owner: dict[int, str] = {}  # "0" and the name of variable 0 are one position
    for group, members in groups.items():
        positions = tuple(_position(member, names, group) for member in members)
        for position in positions:
            if position in owner:
                raise ValueError(
                    f"`layer_groups`: {names[position]!r} is in {owner[position]!r} and {group!r}; "
                    "each variable belongs to one group."
                )
            owner[position] = group
        layers.append(Layer(group, positions))
    missing = [name for i, name in enumerate(names) if i not in owner]
    if missing:
        raise ValueError(f"`layer_groups` leaves out {', '.join(missing)}. Add them to a group.")
    return tuple(layers)


def _position(member: int | str, names: list[str], group: str) -> int:
    """Returns the position of a variable that a layer group names, or gives as a number."""
    if isinstance(member, str) and member in names:
        return names.index(member)
    if str(member).isdecimal() and int(member) < len(names):
        return int(member)
    raise ValueError(
        f"`layer_groups.{group}` has {member!r}, which is not a variable. "
        f"Known: {', '.join(names)}, or positions 0..{len(names) - 1}."
    )


def tensor_types(value_type: tff.Type) -> list[tff.TensorType]:
    """Returns the tensors of an update's type, in order."""
    if isinstance(value_type, tff.TensorType):
        return [value_type]
    return tff.structure.flatten(value_type)


def require_float_tensors(value_type: tff.Type, what: str) -> None:
    """Raises `TypeError` unless `value_type` is a tensor or structure of floating-point tensors."""
    tensors = tensor_types(tff.to_type(value_type))
    if not tensors or not all(
        isinstance(t, tff.TensorType) and tf.as_dtype(t.dtype).is_floating for t in tensors
    ):
        raise TypeError(f"{what} aggregates floating-point tensors, got type {value_type}.")


def require_factory(factory: object, name: str = "inner") -> None:
    """Raises `TypeError` unless the argument `name` is a weighted aggregation factory of TFF."""
    if not isinstance(factory, tff.aggregators.WeightedAggregationFactory):
        raise TypeError(
            f"`{name}` must be a tff.aggregators.WeightedAggregationFactory, got "
            f"{type(factory).__name__}. Wrap one without weights in "
            "tff.aggregators.as_weighted_aggregator, and pass numbers by keyword."
        )


def layer_norms(value: Any, layers: Sequence[Layer], norm: str, *, exact: bool = True) -> tf.Tensor:
    """Returns the norm of each layer, float64 [layers], which no float32 update overflows.

    Args:
      value: The update.
      layers: Its layers.
      norm: "1", "2" or "inf" of the layer as one vector; or "spectral": the largest singular value
        of a matrix (first axes by last axis), the 2-norm of a vector, and for a group the root of
        the sum of squares.
      exact: Whether everything is summed in float64. If not, norm "2" of float32 tensors is
        computed in one pass without copies, with a relative error of about 1e-6.
    """
    per_tensor, across = {
        "1": (lambda x: tf.reduce_sum(tf.abs(x)), tf.reduce_sum),
        "2": (lambda x: tf.reduce_sum(tf.square(x)), lambda sums: tf.sqrt(tf.reduce_sum(sums))),
        "inf": (lambda x: tf.reduce_max(tf.abs(x)), tf.reduce_max),
        "spectral": (_squared_spectral_norm, lambda sums: tf.sqrt(tf.reduce_sum(sums))),
    }[norm]
    if norm == "2" and not exact:
        flat = [_squared_norm(x) for x in tf.nest.flatten(value)]
    else:
        flat = [per_tensor(tf.cast(x, tf.float64)) for x in tf.nest.flatten(value)]
    return tf.stack([across(tf.stack([flat[i] for i in layer.positions])) for layer in layers])


def _squared_norm(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the float64 sum of squares, summed in the tensor's type if its range allows it."""
    half = tf.cast(tf.nn.l2_loss(tensor), tf.float64)
    in_range = tf.logical_and(tf.math.is_finite(half), half > 1e-25)
    return tf.cond(
        in_range, lambda: 2.0 * half, lambda: tf.reduce_sum(tf.square(tf.cast(tensor, tf.float64)))
    )


def _squared_spectral_norm(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the squared largest singular value by power iteration on the smaller Gram matrix.

    The error is one-sided (never above the true value) and decreases as (s2 / s1)^(2 * iterations).
    """
    if tensor.shape.rank < 2:
        return tf.reduce_sum(tf.square(tensor))
    matrix = tf.reshape(tensor, [-1, tensor.shape[-1]])
    rows, columns = matrix.shape
    gram = tf.matmul(matrix, matrix, transpose_a=rows >= columns, transpose_b=rows < columns)
    vector = tf.random.stateless_normal(
        [min(rows, columns), 1], _START_VECTOR_SEED, dtype=tf.float64
    )
    for _ in range(POWER_ITERATIONS):
        vector = tf.matmul(gram, tf.math.l2_normalize(vector, epsilon=0.0))
        vector = tf.where(tf.math.is_finite(vector), vector, tf.zeros_like(vector))  # 0 / 0
    unit = tf.math.divide_no_nan(vector, tf.norm(vector))
    return tf.reduce_sum(unit * tf.matmul(gram, unit))  # never below 0, because it is a Gram matrix


def scale_layers(value: Any, layers: Sequence[Layer], factors: tf.Tensor) -> Any:
    """Multiplies each layer by its factor ([layers], finite), in the structure of `value`.

    A factor of 1 returns the tensor unchanged, without a copy.
    """
    flat = list(tf.nest.flatten(value))
    for number, layer in enumerate(layers):
        for i in layer.positions:
            flat[i] = _times(flat[i], tf.cast(factors[number], flat[i].dtype))
    return tf.nest.pack_sequence_as(value, flat)


def _times(tensor: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.equal(factor, 1.0), lambda: tensor, lambda: tensor * factor)
