"""What "layer" means to FedAtt, FedMed and private FedAtt, and arithmetic on layers.

A layer is a named group of the tensors of a delta: each tensor by itself, or groups a config
names (embedding, recurrence, output). Tensors are told apart by their position in the delta, in
the order of `trainable_variables`.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

POWER_ITERATIONS = 50
_START_VECTOR_SEED = (2019, 6)  # any fixed one: the norm must be a function of the delta alone


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
    """The layers of a delta.

    `groups` is group name -> variable names or positions ("0" is 0 where no variable is called so),
    with every tensor in exactly one; None or empty: each tensor is a layer. `variable_names` are
    those of the tensors in order; without them only positions are known. Raises `ValueError` if a
    group is empty, a member unknown, or the groups are no partition.
    """
    count = len(tensor_types(value_type))
    if variable_names is not None and len(variable_names) != count:
        raise ValueError(
            f"`variable_names` must name the {count} tensors of a delta, got {len(variable_names)}."
        )
    names = list(variable_names or [f"layer_{i}" for i in range(count)])
    if not groups:
        return tuple(Layer(name, (i,)) for i, name in enumerate(names))
    layers = []
    owner: dict[int, str] = {}
    for group, members in groups.items():
        positions = tuple(_position(member, names, group) for member in members)
        if not positions:
            raise ValueError(f"`layer_groups.{group}` is empty: name its variables or remove it.")
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
        raise ValueError(f"`layer_groups` leaves out {', '.join(missing)}: add them to a group.")
    return tuple(layers)


def _position(member: int | str, names: list[str], group: str) -> int:
    if isinstance(member, str) and member in names:
        return names.index(member)
    if str(member).isdecimal() and int(member) < len(names):
        return int(member)
    raise ValueError(
        f"`layer_groups.{group}` has {member!r}, which is no variable. "
        f"Known: {', '.join(names)}, or positions 0..{len(names) - 1}."
    )


def tensor_types(value_type: tff.Type) -> list[tff.TensorType]:
    """The tensors of a delta's type, in order."""
    if isinstance(value_type, tff.TensorType):
        return [value_type]
    return tff.structure.flatten(value_type)


def require_float_tensors(value_type: tff.Type, what: str) -> None:
    """Raises TypeError unless `value_type` is a tensor or structure of floating-point tensors."""
    tensors = tensor_types(tff.to_type(value_type))
    if not tensors or not all(
        isinstance(t, tff.TensorType) and tf.as_dtype(t.dtype).is_floating for t in tensors
    ):
        raise TypeError(f"{what} aggregates floating-point tensors, got type {value_type}.")


def layer_norms(value: Any, layers: Sequence[Layer], norm: str, *, exact: bool = True) -> tf.Tensor:
    """The norm of each layer, float64 [layers]: no float32 delta overflows it.

    Args:
      norm: "1", "2" or "inf" of the layer as one vector; or "spectral": the largest singular
        value of a matrix (first axes by last axis), the 2-norm of a vector, and for a group the
        root of the sum of their squares.
      exact: Whether all is summed in float64. If not, norm "2" of float32 tensors is, to some
        1e-6 of it, of one sweep that copies nothing.
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
    """float64 sum of squares, summed in the tensor's own type where that has the range for it."""
    half = tf.cast(tf.nn.l2_loss(tensor), tf.float64)
    in_range = tf.logical_and(tf.math.is_finite(half), half > 1e-25)
    return tf.cond(
        in_range, lambda: 2.0 * half, lambda: tf.reduce_sum(tf.square(tf.cast(tensor, tf.float64)))
    )


def _squared_spectral_norm(tensor: tf.Tensor) -> tf.Tensor:
    """Square of the largest singular value by power iteration on the smaller Gram matrix.

    The error is one-sided (never above the true value) and falls as (s2 / s1)^(2 * iterations).
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
    return tf.reduce_sum(unit * tf.matmul(gram, unit))  # a Gram matrix: never below 0


def scale_layers(value: Any, layers: Sequence[Layer], factors: tf.Tensor) -> Any:
    """Each layer times its factor ([layers], finite), in the structure of `value`.

    What is to be multiplied by 1 is passed on as it is: nothing is copied.
    """
    flat = list(tf.nest.flatten(value))
    for number, layer in enumerate(layers):
        for i in layer.positions:
            flat[i] = _times(flat[i], tf.cast(factors[number], flat[i].dtype))
    return tf.nest.pack_sequence_as(value, flat)


def _times(tensor: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
    return tf.cond(tf.equal(factor, 1.0), lambda: tensor, lambda: tensor * factor)
