"""Small uploads: a delta as whole steps, rounded at random, and DEFLATE.

    step = 8 rms(x) / 2^bits
    q_i = floor(x_i / step + u_i),  u_i uniform in [0, 1);   x'_i = q_i step

x' is right on average, and exact where x is 0. 2^bits steps span four rms to each side; what lies
beyond is sent as well, so nothing is cut off. The bytes follow the entropy of q: the energy of a
delta lies in few rows of the word table, and the others are runs of zeros.

`rotated` first multiplies by random signs and a Hadamard matrix in blocks of 4,096 numbers (Suresh
et al. 2017, section 3, http://proceedings.mlr.press/v70/suresh17a.html). It makes numbers alike in
size, which codes of a fixed length need. With an entropy code it costs half as many bytes again for
the same error, so it is off unless asked for. Deltas of 40 SMS writers from `models/base`, float32
bytes / bytes, and squared error / squared length (2026-11-25):

    bits          2              3              4
    as it is      67   0.149     47   0.047     32   0.014
    rotated       47   0.257     33   0.072     22   0.019

Of models that have learnt more from these people deltas are denser: 24 times at 4 bits after 100
rounds from nothing, 19 for the writer with the densest.

The bytes, little-endian: magic, bits, `rotated`, seed (uint64), step (float64), numbers, escapes
(uint32), then one raw DEFLATE stream of two symbols a byte, the first in the high half, and after
them the escapes (int32). Symbol 2q stands for q >= 0, -2q - 1 for q < 0, 15 for an escape: |q| > 7.
Signs of a rotation are the bits of SHAKE-128 of the seed's 8 bytes, highest first; 1 is minus.
"""

import hashlib
import math
import struct

import numpy as np

from tff_keyboard.storage.errors import DataError
from tff_keyboard.wire.deflate import deflated, inflated

BITS = (2, 3, 4)
BLOCK = 4096  # numbers that are rotated together: a square, so that two small products do it

_MAGIC = b"tkq1"
_HEADER = struct.Struct("<4sBBxxQdII")
HEADER_BYTES = _HEADER.size
LARGEST, ESCAPE = 7, 15  # size of a step, and its symbol
RMS_SPANNED = 8.0  # four to each side
_PAIRS = np.stack([np.arange(256) >> 4, np.arange(256) & 15], axis=1)
_VALUES = np.where(_PAIRS % 2, -(_PAIRS + 1) // 2, _PAIRS // 2).astype(np.int32)  # [256, 2]
_HAS_ESCAPE = (_PAIRS == ESCAPE).any(axis=1)


def encode(vector: np.ndarray, *, bits: int, seed: int, rotated: bool = False) -> bytes:
    """The bytes of a delta, a pure function of the arguments.

    Args:
      vector: [size] float32, finite.
      bits: 2, 3 or 4.
      seed: What rounding and rotation are functions of, in [0, 2^64).

    Raises:
      DataError: Not a vector of finite numbers, or an argument is out of range.
    """
    if bits not in BITS:
        raise DataError(f"`bits` must be one of {BITS}, got {bits}.")
    if not 0 <= seed < 2**64:
        raise DataError(f"`seed` must be in [0, 2^64), got {seed}.")
    if vector.ndim != 1 or not np.isfinite(vector).all():
        raise DataError("A delta must be one vector of finite numbers. Send none if it diverged.")
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
    """[size] float32, finite, of what `encode` wrote; takes about 17 bytes of memory a number.

    Raises:
      DataError: The bytes are of something else, damaged or of another size.
    """
    if len(data) < _HEADER.size:
        raise DataError(f"An encoded delta has {_HEADER.size} bytes or more, got {len(data)}.")
    magic, _, rotated, seed, step, numbers, escapes = _HEADER.unpack_from(data)
    if magic != _MAGIC or rotated > 1 or not 0 <= step < math.inf:
        raise DataError("An encoded delta begins with bytes of another codec.")
    if numbers != size:
        raise DataError(f"An encoded delta must have {size} numbers, got {numbers}.")
    padded = _padded(size) if rotated else size
    pairs = -(-padded // 2)
    if escapes > padded:
        raise DataError(f"An encoded delta has {escapes} escapes in {padded} numbers.")
    stream = inflated(data[_HEADER.size :], pairs + 4 * escapes)
    codes = np.frombuffer(stream, np.uint8, pairs)
    steps = _VALUES[codes].reshape(-1)
    if escapes or _HAS_ESCAPE[codes].any():
        places = np.flatnonzero(_PAIRS[codes].reshape(-1) == ESCAPE)
        if len(places) != escapes:
            raise DataError(f"An encoded delta has {len(places)} escapes, its head says {escapes}.")
        steps[places] = np.frombuffer(stream, "<i4", offset=pairs)
    x = steps[:padded] * step
    if rotated:
        x = unrotate(x, random_signs(seed, size))
    if not np.abs(x).max(initial=0) <= np.finfo(np.float32).max:
        raise DataError("An encoded delta has numbers beyond float32.")
    return x.astype(np.float32)


def step_size(x: np.ndarray, bits: int) -> float:
    """The step of a vector, in its units; 0 if it is all zeros."""
    return RMS_SPANNED / 2**bits * math.sqrt(np.mean(np.square(x))) if len(x) else 0.0


def quantise(x: np.ndarray, step: float, uniform: np.ndarray) -> np.ndarray:
    """[size] int32 of [size] float64 and [size] numbers in [0, 1); zeros where `step` is 0."""
    return np.floor((x / step if step else 0 * x) + uniform).astype(np.int32)


def rotate(x: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Signs, then the Hadamard matrix on each block: keeps lengths; [size] -> [whole blocks]."""
    padded = np.zeros(_padded(len(x)))
    np.multiply(x, signs, out=padded[: len(x)])
    return _hadamard_blocks(padded)


def unrotate(x: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """The inverse of `rotate`: the matrix is its own."""
    return _hadamard_blocks(x)[: len(signs)] * signs


def random_signs(seed: int, size: int) -> np.ndarray:
    """[size] of 1.0 and -1.0."""
    bits = hashlib.shake_128(seed.to_bytes(8, "little")).digest(-(-size // 8))
    return 1.0 - 2.0 * np.unpackbits(np.frombuffer(bits, np.uint8), count=size)


def hadamard(size: int) -> np.ndarray:
    """[size, size] Sylvester's matrix, orthonormal; `size` is a power of two."""
    matrix = np.ones([1, 1])
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix / math.sqrt(size)


def _hadamard_blocks(x: np.ndarray) -> np.ndarray:
    side = math.isqrt(BLOCK)
    matrix = hadamard(side)  # of a block it is this one's product with itself
    return (matrix @ x.reshape(-1, side, side) @ matrix).reshape(-1)


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK
