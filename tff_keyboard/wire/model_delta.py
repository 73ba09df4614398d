"""A newer model as its difference from the one a device has, to the last bit.

Weights are read as integers in the order of the numbers they stand for, so that neighbours differ
by 1 and a small step leaves the high bytes alone. Differences modulo 2^32, zigzag, are written by
planes, all lowest bytes first, and DEFLATE. Both models are named by their SHA-256, which is
checked at the end: a device has exactly the new bytes, or downloads the model whole.

What is left are mantissas that training has moved: after a round on SMS of the shipped base model
2.2 times fewer bytes, 3.2 times where a server's step is a tenth of that.

The bytes: magic, SHA-256 of the old model, SHA-256 of the new one, the stream.
"""

import hashlib

import numpy as np

from tff_keyboard.storage.errors import DataError
from tff_keyboard.wire.deflate import deflated, inflated

MAGIC = b"tkd1"
_HEAD = len(MAGIC) + 2 * hashlib.sha256().digest_size
_SIGN = np.uint32(1 << 31)


def make(old: bytes, new: bytes) -> bytes:
    """What `apply` turns `old` into `new` with: little-endian float32 vectors of one length.

    Raises:
      DataError: They are not.
    """
    if len(old) != len(new) or len(old) % 4:
        raise DataError(f"Models of {len(old)} and {len(new)} bytes have no difference.")
    steps = (_ordered(new) - _ordered(old)).view(np.int32)
    zigzag = ((steps << 1) ^ (steps >> 31)).astype("<u4")
    planes = zigzag.view(np.uint8).reshape(-1, 4).T
    return MAGIC + _digest(old) + _digest(new) + deflated(planes.tobytes())


def apply(old: bytes, delta: bytes) -> bytes:
    """The new model's bytes.

    Raises:
      DataError: The delta is for another model, or damaged.
    """
    if delta[: len(MAGIC)] != MAGIC or len(delta) < _HEAD:
        raise DataError("A model's delta begins with other bytes. Download the model whole.")
    if delta[len(MAGIC) : _HEAD - 32] != _digest(old):
        raise DataError("A model's delta is for another model. Download the model whole.")
    planes = np.frombuffer(inflated(delta[_HEAD:], len(old)), np.uint8).reshape(4, -1)
    zigzag = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    steps = (zigzag >> np.uint32(1)) ^ (np.uint32(0) - (zigzag & np.uint32(1)))
    ordered = _ordered(old) + steps
    bits = np.where(ordered & _SIGN, ordered ^ _SIGN, ~ordered)
    new = bits.astype("<u4").tobytes()
    if _digest(new) != delta[_HEAD - 32 : _HEAD]:
        raise DataError("A model's delta is damaged: it makes another model. Download it whole.")
    return new


def _ordered(model: bytes) -> np.ndarray:
    """[numbers] uint32 that are in the order of the floats whose bits they hold."""
    bits = np.frombuffer(model, "<u4").astype(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits ^ _SIGN)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
