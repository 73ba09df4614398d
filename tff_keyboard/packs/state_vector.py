"""A state on its way to a worker and back: one vector instead of a tree.

TFF copies the content of a value about three times for every level of structure around it, and in
a learning process weights and their momentum lie five levels deep. One vector that stands alone
takes a third of the CPU (docs/performance.md). Joining and cutting change no bit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff


class Joined(NamedTuple):
    """A structure, joined."""

    vector: Any
    others: Sequence[Any]


class StateVector:
    """How the float32 arrays of a structure are joined to one vector; other leaves stay apart.

    Attributes:
      type: Type of `Joined`: a vector float32[n], and the other tensors.
    """

    def __init__(self, structure_type: tff.Type):
        self._structure_type = structure_type
        leaves = leaf_types(structure_type)
        self.num_leaves = len(leaves)
        self._shapes = [None if leaf.shape is None else tuple(leaf.shape) for leaf in leaves]
        self._is_joined = [
            leaf.dtype == np.float32 and None not in (shape or [None])
            for leaf, shape in zip(leaves, self._shapes, strict=True)
        ]
        self._sizes = [int(np.prod(shape)) for shape in self._only(self._shapes, joined=True)]
        self._starts = [sum(self._sizes[:place]) for place in range(len(self._sizes))]
        self.type = Joined(
            tff.TensorType(np.float32, [sum(self._sizes)]),
            tff.to_type(self._only(leaves, joined=False)),
        )

    def join(self, structure: Any) -> Joined:
        """Values of the structure, NumPy, as `type` says."""
        return self.join_leaves(leaves_of(structure))

    def join_leaves(self, leaves: Sequence[Any]) -> Joined:
        """Like `join`, but of the leaves of a structure."""
        parts = [np.asarray(leaf, np.float32) for leaf in self._only(leaves, joined=True)]
        vector = self._vector_behind(parts)
        if vector is None:
            vector = np.concatenate([np.zeros(0, np.float32), *(part.ravel() for part in parts)])
        return Joined(vector, self._only(leaves, joined=False))

    def cut(self, joined: Joined) -> list[Any]:
        """The leaves again, NumPy: views of the vector."""
        vector = np.asarray(joined.vector)
        shapes = self._only(self._shapes, joined=True)
        parts = [
            vector[start : start + size].reshape(shape)
            for start, size, shape in zip(self._starts, self._sizes, shapes, strict=True)
        ]
        return self._in_order(parts, joined.others)

    def join_tensors(self, leaves: Sequence[tf.Tensor]) -> Joined:
        """Like `join`, but of the leaves in a graph."""
        parts = [tf.reshape(leaf, [-1]) for leaf in self._only(leaves, joined=True)]
        vector = tf.concat(parts, 0) if parts else tf.zeros([0])
        return Joined(vector, self._only(leaves, joined=False))

    def cut_tensors(self, joined: Joined) -> tff.structure.Struct:
        """The structure again, in a graph."""
        shapes = self._only(self._shapes, joined=True)
        pieces = tf.split(joined.vector, self._sizes) if shapes else []
        parts = [tf.reshape(piece, shape) for piece, shape in zip(pieces, shapes, strict=True)]
        leaves = self._in_order(parts, joined.others)
        return packed_as(self._structure_type, iter(leaves))

    def _vector_behind(self, parts: Sequence[np.ndarray]) -> np.ndarray | None:
        """The vector that `cut` made the parts of, if they are still all of it, in order."""
        whole = parts[0].base if parts else None
        size = sum(self._sizes)
        if not isinstance(whole, np.ndarray) or (whole.dtype, whole.shape) != (np.float32, (size,)):
            return None
        for part, start in zip(parts, self._starts, strict=True):
            address = whole.ctypes.data + whole.itemsize * start
            is_there = part.base is whole and part.flags.c_contiguous
            if not (is_there and part.ctypes.data == address) and part.size:
                return None
        return whole

    def _only(self, leaves: Sequence[Any], *, joined: bool) -> list[Any]:
        pairs = zip(leaves, self._is_joined, strict=True)
        return [leaf for leaf, is_joined in pairs if is_joined == joined]

    def _in_order(self, parts: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        parts_left, others_left = iter(parts), iter(others)
        return [next(parts_left if joined else others_left) for joined in self._is_joined]


def leaf_types(type_spec: tff.Type) -> list[tff.TensorType]:
    """Types of all tensors of a type, in its order."""
    if isinstance(type_spec, tff.StructType):
        return tff.structure.flatten(type_spec)
    return [type_spec]


def packed_as(type_spec: tff.Type, leaves: Any) -> Any:
    """The structure of a type with the values of an iterator."""
    if isinstance(type_spec, tff.StructType):
        return tff.structure.Struct(
            [(name, packed_as(t, leaves)) for name, t in tff.structure.iter_elements(type_spec)]
        )
    return next(leaves)


def leaves_of(structure: Any) -> list[Any]:
    return tff.structure.flatten(tff.structure.from_container((structure,), recursive=True))
