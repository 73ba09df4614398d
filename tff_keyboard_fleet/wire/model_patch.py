"""Encodes a newer model as its bit-exact difference from an older model that a device has.

Weights are read as integers in the order of the numbers that they represent. Neighbouring floats
then differ by 1, and a small training step leaves the high bytes unchanged. The differences modulo
2^32, zigzag-coded, are written in byte planes (all lowest bytes first) and deflated. The delta
names both models by their SHA-256, which is checked at the end: a device gets exactly the new
bytes, or downloads the whole model.

What remains are the mantissa bits that training changed. After a round on SMS of the shipped base
model, a delta has 2.2 times fewer bytes than the model; 3.2 times if the server's step is a tenth
of that. The bytes: magic, SHA-256 of the old model, SHA-256 of the new model, the deflated stream.
"""

import hashlib

import numpy as np

from tff_keyboard.storage.deflate import deflated, inflated
from tff_keyboard.storage.errors import DataError

MAGIC = b"tkd1"
_HEAD = len(MAGIC) + 2 * hashlib.sha256().digest_size
_SIGN = np.uint32(1 << 31)


def make(old: bytes, new: bytes) -> bytes:
    """Returns the delta from `old` to `new`, two little-endian float32 vectors of one length.

    Raises:
      DataError: If the lengths differ, or are not multiples of 4 bytes.
    """
    if len(old) != len(new) or len(old) % 4:
        raise DataError(f"Models of {len(old)} and {len(new)} bytes have no difference.")
    steps = (_ordered(new) - _ordered(old)).view(np.int32)
    zigzag = ((steps << 1) ^ (steps >> 31)).astype("<u4")
    planes = zigzag.view(np.uint8).reshape(-1, 4).T
    return MAGIC + _digest(old) + _digest(new) + deflated(planes.tobytes())


def apply(old: bytes, delta: bytes) -> bytes:
    """Returns the bytes of the new model.

    Raises:
      DataError: If the delta is for another model, or is damaged.
    """
    if delta[: len(MAGIC)] != MAGIC or len(delta) < _HEAD:
        raise DataError("The model difference has an unknown format. Download the complete model.")
    if delta[len(MAGIC) : _HEAD - 32] != _digest(old):
        raise DataError("The model difference is for another model. Download the complete model.")
    planes = np.frombuffer(inflated(delta[_HEAD:], len(old)), np.uint8).reshape(4, -1)
    zigzag = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    steps = (zigzag >> np.uint32(1)) ^ (np.uint32(0) - (zigzag & np.uint32(1)))
    ordered = _ordered(old) + steps
    bits = np.where(ordered & _SIGN, ordered ^ _SIGN, ~ordered)
    new = bits.astype("<u4").tobytes()
    if _digest(new) != delta[_HEAD - 32 : _HEAD]:
        raise DataError(
            "The model difference is damaged: it gives another model. Download the complete model."
        )
    return new


def _ordered(model: bytes) -> np.ndarray:
    """Returns [numbers] uint32 in the same order as the floats whose bits they come from."""
    bits = np.frombuffer(model, "<u4").astype(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits ^ _SIGN)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
