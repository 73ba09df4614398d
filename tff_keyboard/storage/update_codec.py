"""Small uploads: an update in whole steps, rounded at random and compressed with DEFLATE.

    step = 8 rms(x) / 2^bits
    q_i = floor(x_i / step + u_i),  u_i uniform in [0, 1);   x'_i = q_i step

x' has the expected value x, and is exact if x is 0. 2^bits steps span four rms to each side. Larger
values are sent as well, so nothing is clipped. The number of bytes follows the entropy of q: most
of an update's energy is in few rows of the word table, and the other rows are runs of zeros.

For the updates of 40 SMS writers from `models/base`, the table shows float32 bytes / encoded bytes,
and squared error / squared length (2026-11-25):

    bits    2              3              4
            67   0.149     47   0.047     32   0.014

Updates of models that have learnt more from these clients are denser. After 100 rounds from random
weights, 4 bits make them 24 times smaller, and 19 times for the client with the densest update.

The bytes, little-endian: magic, bits, three zeros, seed (uint64), step (float64), number of values,
number of escapes (uint32), then one raw DEFLATE stream. The stream has two symbols in each byte,
the first in the high half, followed by the escaped values (int32). Symbol 2q stands for q >= 0, -2q
- 1 for q < 0, and 15 for an escape: |q| > 7.
"""

import math
import struct

import numpy as np

from tff_keyboard.storage.deflate import deflated, inflated
from tff_keyboard.storage.errors import DataError

BITS = (2, 3, 4)

_MAGIC = b"tkq1"
_HEADER = struct.Struct("<4sBxxxQdII")
HEADER_BYTES = _HEADER.size
LARGEST, ESCAPE = 7, 15  # largest |q| with a symbol of its own, and the symbol of an escape
RMS_SPANNED = 8.0  # four to each side
_PAIRS = np.stack([np.arange(256) >> 4, np.arange(256) & 15], axis=1)
_VALUES = np.where(_PAIRS % 2, -(_PAIRS + 1) // 2, _PAIRS // 2).astype(np.int32)  # [256, 2]
_HAS_ESCAPE = (_PAIRS == ESCAPE).any(axis=1)


def encode(vector: np.ndarray, *, bits: int, seed: int) -> bytes:
    """Returns the bytes of an update. The result depends only on the arguments.

    Args:
      vector: [size] float32, finite.
      bits: 2, 3 or 4.
      seed: Seed of the rounding, in [0, 2^64).

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
    step = step_size(x, bits)
    steps = quantise(x, step, np.random.default_rng(seed).random(len(x)))
    flat = np.append(steps, np.zeros(len(steps) % 2, np.int32))
    escapes = np.flatnonzero(np.abs(flat) > LARGEST)
    symbols = np.where(flat < 0, -2 * flat - 1, 2 * flat)
    symbols[escapes] = ESCAPE
    pairs = (symbols[0::2] * 16 + symbols[1::2]).astype(np.uint8)
    stream = deflated(pairs.tobytes() + flat[escapes].astype("<i4").tobytes())
    head = _HEADER.pack(_MAGIC, bits, seed, step, len(vector), len(escapes))
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
    magic, _, _, step, num_values, escapes = _HEADER.unpack_from(data)
    if magic != _MAGIC or not 0 <= step < math.inf:
        raise DataError("The encoded update was written by another codec.")
    if num_values != size:
        raise DataError(f"An encoded update must have {size} numbers, got {num_values}.")
    pairs = -(-size // 2)
    if escapes > size:
        raise DataError(f"The encoded update has {escapes} escapes in {size} numbers.")
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
    x = steps[:size] * step
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
