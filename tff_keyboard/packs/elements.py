"""What a client holds, as a few tensors: all elements of its dataset, joined.

    values   of a leaf of the element: its numbers in all elements, one element after the other
    shapes   int64 [elements, rank]: its shape in each

A dataset of one such joined element says the same as a dataset of the elements, TFF takes it, and
reading it costs one operation in place of an iterator; `packs.compiler` even feeds it without a
dataset. Client work that reads its data by `read` and `fold` takes either.
"""

import collections
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

Spec: TypeAlias = Any  # a nested structure of tf.TensorSpec, of known ranks
Joined: TypeAlias = Any  # that structure, each leaf an `OrderedDict(values, shapes)`


def joined_spec(spec: Spec) -> Joined:
    """Spec of the joined elements whose own is `spec`."""

    def joined(leaf: tf.TensorSpec) -> collections.OrderedDict:
        if leaf.shape.rank is None:
            raise ValueError(f"Cannot join elements of unknown rank: {leaf}.")
        return collections.OrderedDict(
            values=tf.TensorSpec([None], leaf.dtype),
            shapes=tf.TensorSpec([None, leaf.shape.rank], tf.int64),
        )

    return tf.nest.map_structure(joined, spec)


def join(elements: Iterable[Any], spec: Spec) -> Joined:
    """The elements of a client, joined; NumPy."""
    columns = [tf.nest.flatten(element) for element in elements]

    def joined(index: int, leaf: tf.TensorSpec) -> collections.OrderedDict:
        arrays = [np.asarray(column[index], leaf.dtype.as_numpy_dtype) for column in columns]
        return collections.OrderedDict(
            values=np.concatenate([array.ravel() for array in arrays])
            if arrays
            else np.zeros([0], leaf.dtype.as_numpy_dtype),
            shapes=np.array([a.shape for a in arrays], np.int64).reshape(
                len(arrays), leaf.shape.rank
            ),
        )

    leaves = [joined(i, leaf) for i, leaf in enumerate(tf.nest.flatten(spec))]
    return tf.nest.pack_sequence_as(spec, leaves)


def joined_dataset(elements: Iterable[Any], spec: Spec) -> tf.data.Dataset:
    """The dataset of one element, which is `elements` joined."""
    return as_it_is(tf.data.Dataset.from_tensors(join(elements, spec)))


def as_it_is(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """No rewriting, no tuning: both cost more than a few elements do, on every client."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


def read(data: tf.data.Dataset, spec: Spec) -> tf.data.Dataset | Joined:
    """What `fold` takes: of a dataset of joined elements those tensors, any other as it is.

    To be called where a TFF computation begins, outside of functions: the compiler of packs puts
    its tensors in place of the operation that is made here.
    """
    if _leaves(data.element_spec) == _leaves(joined_spec(spec)):
        return data.get_single_element()
    return data


def fold(
    step: Callable[[Any, Any], Any],
    state: Any,
    data: tf.data.Dataset | Joined,
    spec: Spec,
    *,
    start: tf.Tensor | None = None,
    stop: tf.Tensor | None = None,
) -> Any:
    """`state = step(state, element)` over the elements in their order, inside a `tf.function`.

    Args:
      step: State and element to a state of the same structure, dtypes and shapes.
      start: The first element, int64; None: 0. Of joined ones only.
      stop: The element after the last; None: all. Of joined ones only.
    """
    if isinstance(data, tf.data.Dataset):
        for element in iter(data):  # not `reduce`: it instantiates the step anew for each client
            state = step(state, element)
        return state
    columns = [
        (values, tf.cumsum(tf.reduce_prod(shapes, axis=1)), shapes, leaf)
        for (values, shapes), leaf in zip(leaves(data), tf.nest.flatten(spec), strict=True)
    ]
    first = tf.constant(0, tf.int64) if start is None else start
    last = tf.size(columns[0][1], tf.int64) if stop is None else stop
    for i in tf.range(first, last):
        cut = [slice_of(values, ends[i], shapes[i], leaf) for values, ends, shapes, leaf in columns]
        state = step(state, tf.nest.pack_sequence_as(spec, cut))
    return state


def leaves(joined: Joined) -> list[tuple[Any, Any]]:
    """`(values, shapes)` of each leaf."""
    flat = tf.nest.flatten(joined)  # names are sorted: shapes, values, shapes, ...
    return list(zip(flat[1::2], flat[0::2], strict=True))


def slice_of(values: tf.Tensor, end: tf.Tensor, shape: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """The component of `shape` whose numbers end before `end` in `values`."""
    cut = tf.reshape(values[end - tf.reduce_prod(shape) : end], shape)
    return tf.ensure_shape(cut, spec.shape)


def _leaves(spec: Spec) -> list[tuple[tf.DType, int | None]]:
    return [(leaf.dtype, leaf.shape.rank) for leaf in tf.nest.flatten(spec)]
