"""A client's dataset as a few tensors: all of its elements, joined.

    values   of a leaf of the element: its numbers in all elements, one element after the other
    shapes   int64 [elements, rank]: its shape in each element

A dataset with one such joined element contains the same data as a dataset of the elements. TFF
accepts it, and reading it takes one operation instead of an iterator.
`algorithms/client_packing/round_form.py` even feeds it without a dataset. Client work that reads
its data with `read` and `fold` accepts both forms.
"""

import collections
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

Spec: TypeAlias = Any  # a nested structure of tf.TensorSpec, of known ranks
Joined: TypeAlias = Any  # that structure, each leaf an `OrderedDict(values, shapes)`

# Dataset -> its elements, which this process made itself; see `remember`.
_elements_of_dataset: weakref.WeakKeyDictionary[tf.data.Dataset, Sequence[Any]] = (
    weakref.WeakKeyDictionary()
)


def remember(dataset: tf.data.Dataset, elements: Sequence[Any]) -> None:
    """Stores the elements of a dataset as NumPy arrays, for `numpy_elements`.

    They must be the elements of each of its iterations. The arrays must not be changed.
    """
    _elements_of_dataset[dataset] = elements


def is_known(dataset: tf.data.Dataset) -> bool:
    """Whether `numpy_elements` returns the elements of this dataset without an iterator."""
    return dataset in _elements_of_dataset


def numpy_elements(dataset: tf.data.Dataset) -> Sequence[Any]:
    """Returns the elements of a dataset as structures of NumPy arrays.

    An iterator costs several milliseconds, most of them for the functions of the dataset
    (`map`), which TensorFlow instantiates and optimises for each iterator.
    """
    if dataset in _elements_of_dataset:
        return _elements_of_dataset[dataset]
    return list(dataset.as_numpy_iterator())


def joined_spec(spec: Spec) -> Joined:
    """Returns the spec of joined elements, given the spec of one element."""

    def joined(leaf: tf.TensorSpec) -> collections.OrderedDict:
        if leaf.shape.rank is None:
            raise ValueError(f"Cannot join elements of unknown rank: {leaf}.")
        return collections.OrderedDict(
            values=tf.TensorSpec([None], leaf.dtype),
            shapes=tf.TensorSpec([None, leaf.shape.rank], tf.int64),
        )

    return tf.nest.map_structure(joined, spec)


def is_joined(spec: Spec, element_spec: Spec) -> bool:
    """Checks whether `spec` is the spec of joined elements of `element_spec`."""
    return _leaves(spec) == _leaves(joined_spec(element_spec))


def join(elements: Iterable[Any], spec: Spec) -> Joined:
    """Joins the elements of a client to NumPy arrays."""
    flat_elements = [tf.nest.flatten(element) for element in elements]

    def joined(index: int, leaf: tf.TensorSpec) -> collections.OrderedDict:
        dtype = leaf.dtype.as_numpy_dtype
        arrays = [np.asarray(element[index], dtype) for element in flat_elements]
        values = np.concatenate([np.zeros([0], dtype), *(array.ravel() for array in arrays)])
        shapes = np.array([a.shape for a in arrays], np.int64).reshape(len(arrays), leaf.shape.rank)
        return collections.OrderedDict(values=values, shapes=shapes)

    leaves = [joined(i, leaf) for i, leaf in enumerate(tf.nest.flatten(spec))]
    return tf.nest.pack_sequence_as(spec, leaves)


def as_it_is(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Turns off graph rewriting and autotuning, which cost more than a few elements per client."""
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    options.autotune.enabled = False
    return dataset.with_options(options)


def read(data: tf.data.Dataset, spec: Spec) -> tf.data.Dataset | Joined:
    """Returns the input of `fold`: the tensors of a joined element, or any other dataset unchanged.

    Call it at the start of a TFF computation, outside of functions: the compiler of packs replaces
    the operation that is created here by its own tensors.
    """
    if is_joined(data.element_spec, spec):
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
    """Computes `state = step(state, element)` over the elements in order, inside a `tf.function`.

    Args:
      step: Returns a state of the same structure, dtypes and shapes.
      state: The first state.
      data: Result of `read`.
      spec: Spec of one element.
      start: Position of the first element, int64; None means 0. Only for joined elements.
      stop: Position after the last element, int64; None means all. Only for joined elements.
    """
    if isinstance(data, tf.data.Dataset):
        return tf.autograph.to_graph(_fold_dataset)(step, state, data)
    columns = [
        (values, tf.cumsum(tf.reduce_prod(shapes, axis=1)), shapes, leaf)
        for (values, shapes), leaf in zip(leaves(data), tf.nest.flatten(spec), strict=True)
    ]
    first = tf.constant(0, tf.int64) if start is None else start
    last = tf.size(columns[0][1], tf.int64) if stop is None else stop

    def add(i: tf.Tensor, state: Any) -> tuple[tf.Tensor, Any]:
        cut = [slice_of(values, ends[i], shapes[i], leaf) for values, ends, shapes, leaf in columns]
        return i + 1, step(state, tf.nest.pack_sequence_as(spec, cut))

    _, state = tf.while_loop(lambda i, _: i < last, add, (first, state), parallel_iterations=1)
    return state


def first(data: Joined, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns the first of joined tensors; without any, a tensor without numbers."""
    shape = tf.concat([data["shapes"], tf.zeros([1, spec.shape.rank], tf.int64)], 0)[0]
    return tf.ensure_shape(tf.reshape(data["values"][: tf.reduce_prod(shape)], shape), spec.shape)


def _fold_dataset(step: Callable[[Any, Any], Any], state: Any, data: tf.data.Dataset) -> Any:
    for element in iter(data):  # `reduce` would instantiate the step anew for each client
        state = step(state, element)
    return state


def leaves(joined: Joined) -> list[tuple[Any, Any]]:
    """Returns `(values, shapes)` of each leaf."""
    flat = tf.nest.flatten(joined)  # names are sorted: shapes, values, shapes, ...
    return list(zip(flat[1::2], flat[0::2], strict=True))


def slice_of(values: tf.Tensor, end: tf.Tensor, shape: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Returns the component with shape `shape` whose numbers end before `end` in `values`."""
    cut = tf.reshape(values[end - tf.reduce_prod(shape) : end], shape)
    return tf.ensure_shape(cut, spec.shape)


def _leaves(spec: Spec) -> list[tuple[tf.DType, int | None]]:
    return [(leaf.dtype, leaf.shape.rank) for leaf in tf.nest.flatten(spec)]
