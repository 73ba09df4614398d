"""Small uploads: an update in whole steps, rounded at random and compressed with DEFLATE.

    step = 8 rms(x) / 2^bits
    q_i = floor(x_i / step + u_i),  u_i uniform in [0, 1);   x'_i = q_i step

x' has the expected value x, and is exact if x is 0. 2^bits steps span four rms to each side. Larger
values are sent as well, so nothing is clipped. The number of bytes follows the entropy of q: most
of an update's energy is in few rows of the word table, and the other rows are runs of zeros.

`rotated` first multiplies by random signs and a Hadamard matrix in blocks of 4,096 numbers (Suresh
et al. 2017, section 3, http://proceedings.mlr.press/v70/suresh17a.html). The rotation makes the
numbers similar in size, which codes of fixed length need. With an entropy code it takes half as
many bytes again for the same error, so it is off by default. For the updates of 40 SMS writers from
`models/base`, the table shows float32 bytes / encoded bytes, and squared error / squared length
(2026-11-25):

    bits          2              3              4
    not rotated   67   0.149     47   0.047     32   0.014
    rotated       47   0.257     33   0.072     22   0.019

Updates of models that have learnt more from these clients are denser. After 100 rounds from random
weights, 4 bits make them 24 times smaller, and 19 times for the client with the densest update.

The bytes, little-endian: magic, bits, `rotated`, seed (uint64), step (float64), number of values,
number of escapes (uint32), then one raw DEFLATE stream. The stream has two symbols in each byte,
the first in the high half, followed by the escaped values (int32). Symbol 2q stands for q >= 0, -2q
- 1 for q < 0, and 15 for an escape: |q| > 7. The signs of a rotation are the bits of SHAKE-128 of
the seed's 8 bytes, highest bit first; 1 means minus.
"""

import hashlib
import math
import struct

import numpy as np

from tff_keyboard.storage.deflate import deflated, inflated
from tff_keyboard.storage.errors import DataError

BITS = (2, 3, 4)
BLOCK = 4096  # numbers per rotation; a square, so that two small products suffice

_MAGIC = b"tkq1"
_HEADER = struct.Struct("<4sBBxxQdII")
HEADER_BYTES = _HEADER.size
LARGEST, ESCAPE = 7, 15  # largest |q| with a symbol of its own, and the symbol of an escape
RMS_SPANNED = 8.0  # four to each side
_PAIRS = np.stack([np.arange(256) >> 4, np.arange(256) & 15], axis=1)
_VALUES = np.where(_PAIRS % 2, -(_PAIRS + 1) // 2, _PAIRS // 2).astype(np.int32)  # [256, 2]
_HAS_ESCAPE = (_PAIRS == ESCAPE).any(axis=1)


def encode(vector: np.ndarray, *, bits: int, seed: int, rotated: bool = False) -> bytes:
    """Returns the bytes of an update. The result depends only on the arguments.

    Args:
      vector: [size] float32, finite.
      bits: 2, 3 or 4.
      seed: Seed of the rounding and the rotation, in [0, 2^64).
      rotated: Whether to rotate the update first.

    Raises:
      DataError: If `vector` is not a vector of finite numbers, or an argument is out of range.
    """
    if bits not in BITS:
        raise DataError(f"`bits` must be one of {BITS}, got {bits}.")
    if not 0 <= seed < 2**64:
        raise DataError(f"`seed` must be in [0, 2^64), got {seed}.")
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise DataError(
            "An update must be one vector of finite numbers. Do not send an update that diverged."
        )
    x = vector.astype(np.float64)
    if rotated:
        x = rotate(x, random_signs(seed, len(x)))
    step = step_size(x, bits)
    steps = quantise(x, step, np.random.default_rng(seed).random(len(x)))
    flat = np.append(steps, np.zeros(len(steps) % 2, np.int32))
    escapes = np.flatnonzero(np.abs(flat) > LARGEST)
    symbols = np.where(flat < 0, -2 * flat - 1, 2 * flat)
    symbols[escapes] = ESCAPE
    pairs = (symbols[0::2] * 16 + symbols[1::2]).astype(np.uint8)
    stream = deflated(pairs.tobytes() + flat[escapes].astype("<i4").tobytes())
    head = _HEADER.pack(_MAGIC, bits, rotated, seed, step, len(vector), len(escapes))
    return head + stream


def decode(data: bytes, size: int) -> np.ndarray:
    """Returns an encoded update, [size] float32, finite.

    Takes about 17 bytes of memory for each number.

    Raises:
      DataError: If the bytes were not written by `encode`, are damaged or have another size.
    """
    if len(data) < _HEADER.size:
        raise DataError(
            f"An encoded update must have at least {_HEADER.size} bytes, got {len(data)}."
        )
    magic, _, rotated, seed, step, numbers, escapes = _HEADER.unpack_from(data)
    if magic != _MAGIC or rotated > 1 or not 0 <= step < math.inf:
        raise DataError("The encoded update was written by another codec.")
    if numbers != size:
        raise DataError(f"An encoded update must have {size} numbers, got {numbers}.")
    padded = _padded(size) if rotated else size
    pairs = -(-padded // 2)
    if escapes > padded:
        raise DataError(f"The encoded update has {escapes} escapes in {padded} numbers.")
    stream = inflated(data[_HEADER.size :], pairs + 4 * escapes)
    codes = np.frombuffer(stream, np.uint8, pairs)
    steps = _VALUES[codes].reshape(-1)
    if escapes or _HAS_ESCAPE[codes].any():
        places = np.flatnonzero(_PAIRS[codes].reshape(-1) == ESCAPE)
        if len(places) != escapes:
            raise DataError(
                f"The encoded update has {len(places)} escapes, but its header says {escapes}."
            )
        steps[places] = np.frombuffer(stream, "<i4", offset=pairs)
    x = steps[:padded] * step
    if rotated:
        x = unrotate(x, random_signs(seed, size))
    if not np.abs(x).max(initial=0) <= np.finfo(np.float32).max:
        raise DataError("The encoded update has numbers that exceed float32.")
    return x.astype(np.float32)


def step_size(x: np.ndarray, bits: int) -> float:
    """Returns the step of a vector, in the vector's units; 0 if the vector is all zeros."""
    return RMS_SPANNED / 2**bits * math.sqrt(np.mean(np.square(x))) if len(x) else 0.0


def quantise(x: np.ndarray, step: float, uniform: np.ndarray) -> np.ndarray:
    """Rounds `x` to multiples of `step` at random.

    Args:
      x: [size] float64.
      step: Size of a step; 0 returns zeros.
      uniform: [size] random numbers in [0, 1).

    Returns:
      [size] int32, the number of steps.
    """
    return np.floor((x / step if step else 0 * x) + uniform).astype(np.int32)


def rotate(x: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Multiplies by signs, then each block by the Hadamard matrix. Keeps the length of the vector.

    Args:
      x: [size] float64.
      signs: [size] of 1.0 and -1.0.

    Returns:
      [padded size] float64; `size` is padded with zeros to whole blocks.
    """
    padded = np.zeros(_padded(len(x)))
    np.multiply(x, signs, out=padded[: len(x)])
    return _hadamard_blocks(padded)


def unrotate(x: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Reverses `rotate`. The matrix is its own inverse."""
    return _hadamard_blocks(x)[: len(signs)] * signs


def random_signs(seed: int, size: int) -> np.ndarray:
    """Returns [size] random numbers 1.0 and -1.0, derived from `seed`."""
    bits = hashlib.shake_128(seed.to_bytes(8, "little")).digest(-(-size // 8))
    return 1.0 - 2.0 * np.unpackbits(np.frombuffer(bits, np.uint8), count=size)


def hadamard(size: int) -> np.ndarray:
    """Returns Sylvester's Hadamard matrix [size, size], orthonormal; `size` is a power of two."""
    matrix = np.ones([1, 1])
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / math.sqrt(size)


def _hadamard_blocks(x: np.ndarray) -> np.ndarray:
    side = math.isqrt(BLOCK)
    matrix = hadamard(side)  # the matrix of a block is the Kronecker product of this with itself
    return (matrix @ x.reshape(-1, side, side) @ matrix).reshape(-1)


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
