"""Weights and deltas on the wire: float32 arrays as one vector.

In the order of `trainable_variables`, which is that of `weights.npz` and of the `weights`
signature; the rows of the word table are those of the graph's sorted vocabulary.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

BYTES_PER_NUMBER = 4
_LITTLE = np.dtype("<f4")


def to_vector(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays one behind the other, [parameters] float32.

    >>> to_vector([np.ones([2, 2]), np.zeros([1])]).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    return np.concatenate([np.asarray(a, np.float32).reshape(-1) for a in arrays])


def to_arrays(vector: np.ndarray, shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The inverse of `to_vector`; views of the vector.

    Raises:
      ValueError: The shapes have another number of elements.
    """
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    if vector.shape != (sum(sizes),):
        raise ValueError(f"A vector of shape {vector.shape}, where {sum(sizes)} numbers are due.")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def to_bytes(vector: np.ndarray) -> bytes:
    """Little-endian float32, `BYTES_PER_NUMBER` each."""
    return np.ascontiguousarray(vector, _LITTLE).tobytes()


def from_bytes(data: bytes) -> np.ndarray:
    """The inverse of `to_bytes`, read-only.

    Raises:
      ValueError: The length is no multiple of `BYTES_PER_NUMBER`.
    """
    return np.frombuffer(data, _LITTLE)


def sha256(data: bytes) -> str:
    """The name under which bytes are fetched, 64 hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
