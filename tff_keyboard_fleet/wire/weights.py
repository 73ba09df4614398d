"""Encodes weights and deltas: float32 arrays as one vector.

The order is that of `trainable_variables`, `weights.npz` and the `weights` signature. Rows of the
word table are in the order of the graph's sorted vocabulary.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

BYTES_PER_NUMBER = 4
_LITTLE = np.dtype("<f4")


def to_vector(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenates arrays to one vector, [parameters] float32.

    >>> to_vector([np.ones([2, 2]), np.zeros([1])]).tolist()
    [1.0, 1.0, 1.0, 1.0, 0.0]
    """
    return np.concatenate([np.asarray(a, np.float32).reshape(-1) for a in arrays])


def to_arrays(vector: np.ndarray, shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Splits the vector of `to_vector` into arrays, which are views.

    Raises:
      ValueError: If the shapes have another number of elements.
    """
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    if vector.shape != (sum(sizes),):
        raise ValueError(f"The vector must have {sum(sizes)} numbers, got shape {vector.shape}.")
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def to_bytes(vector: np.ndarray) -> bytes:
    """Encodes as little-endian float32, `BYTES_PER_NUMBER` each."""
    return np.ascontiguousarray(vector, _LITTLE).tobytes()


def from_bytes(data: bytes) -> np.ndarray:
    """Decodes the output of `to_bytes` as a read-only array.

    Raises:
      ValueError: If the length is not a multiple of `BYTES_PER_NUMBER`.
    """
    return np.frombuffer(data, _LITTLE)


def sha256(data: bytes) -> str:
    """Returns the SHA-256 of `data`, 64 hexadecimal digits, by which devices fetch it."""
    return hashlib.sha256(data).hexdigest()
