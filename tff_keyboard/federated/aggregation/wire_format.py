"""A quantised tensor as the bytes that travel: its range and its steps, `bits` bits each.

    minimum, maximum    float32, little-endian: 8 bytes
    steps               unsigned, most significant bit first, the last byte filled up with zeros

A simulation needs no bytes: clients decode what they would have sent. This is what the bytes that
`upload_size.py` counts are made of, and tested to be exactly as many. NumPy alone.
"""

from typing import NamedTuple

import numpy as np

RANGE_BYTES = 8


class QuantizedTensor(NamedTuple):
    """What the server decodes from: x = minimum + step * (maximum - minimum) / (2^bits - 1).

    Attributes:
      minimum: float32.
      maximum: float32.
      steps: Integers in [0, 2^bits), of the tensor's shape.
    """

    minimum: np.float32
    maximum: np.float32
    steps: np.ndarray


def num_bytes(size: int, bits: int) -> int:
    """Bytes of a tensor with `size` elements.

    >>> num_bytes(1000, bits=4), num_bytes(60, bits=3)
    (508, 31)
    """
    return RANGE_BYTES + -(-size * bits // 8)


def pack(tensor: QuantizedTensor, bits: int) -> bytes:
    """The tensor as bytes, `num_bytes(size, bits)` of them.

    Raises:
      ValueError: A step does not fit into `bits` bits, 1..16.
    """
    steps = np.ravel(tensor.steps)
    if not 1 <= bits <= 16:
        raise ValueError(f"`bits` must be in 1..16, got {bits}.")
    if steps.size and not 0 <= steps.min() <= steps.max() < 2**bits:
        raise ValueError(f"Steps must be in 0..{2**bits - 1}, got {steps.min()}..{steps.max()}.")
    each = np.unpackbits(steps.astype(">u2").view(np.uint8)).reshape(-1, 16)[:, -bits:]
    limits = np.array([tensor.minimum, tensor.maximum], "<f4")
    return limits.tobytes() + np.packbits(each).tobytes()


def unpack(data: bytes, shape: tuple[int, ...], bits: int) -> QuantizedTensor:
    """The tensor that `pack` made `data` of.

    Raises:
      ValueError: `data` has another length.
    """
    size = int(np.prod(shape))
    if len(data) != num_bytes(size, bits):
        raise ValueError(
            f"A tensor of shape {shape} in {bits} bits is {num_bytes(size, bits)} bytes, "
            f"got {len(data)}."
        )
    minimum, maximum = np.frombuffer(data[:RANGE_BYTES], "<f4")
    each = np.unpackbits(np.frombuffer(data[RANGE_BYTES:], np.uint8), count=size * bits)
    steps = each.reshape(size, bits) @ (1 << np.arange(bits - 1, -1, -1))
    return QuantizedTensor(minimum, maximum, steps.reshape(shape))
