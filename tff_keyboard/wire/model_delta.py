"""A newer model as its difference from the one a device has, to the last bit.

Weights are read as integers in the order of the numbers they stand for, so that neighbours differ
by 1 and a small step leaves the high bytes alone. Differences modulo 2^32, zigzag, are written by
planes, all lowest bytes first, and DEFLATE. Both models are named by their SHA-256, which is
checked at the end: a device has exactly the new bytes, or downloads the model whole.

What is left are mantissas that training has moved: after a round on SMS of the shipped base model
2.2 times fewer bytes, 3.2 times where a server's step is a tenth of that.

The bytes: magic, SHA-256 of the old model, SHA-256 of the new one, the stream.

python -m tff_keyboard.wire.model_delta OLD DELTA     # puts the new model in place of DELTA
"""

import hashlib
import pathlib
import sys

import numpy as np

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import DataError
from tff_keyboard.wire.deflate import deflated, inflated

_MAGIC = b"tkd1"
_HEAD = len(_MAGIC) + 2 * hashlib.sha256().digest_size
_SIGN = np.uint32(1 << 31)
_PIECE = 2**16  # numbers that a device moves at a time


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
    return _MAGIC + _digest(old) + _digest(new) + deflated(planes.tobytes())


def apply(old: bytes, delta: bytes) -> bytes:
    """The new model's bytes.

    Raises:
      DataError: The delta is for another model, or damaged.
    """
    if delta[: len(_MAGIC)] != _MAGIC or len(delta) < _HEAD:
        raise DataError("A model's delta begins with other bytes. Download the model whole.")
    if delta[len(_MAGIC) : _HEAD - 32] != _digest(old):
        raise DataError("A model's delta is for another model. Download the model whole.")
    planes = np.frombuffer(inflated(delta[_HEAD:], len(old)), np.uint8).reshape(4, -1)
    pieces = range(0, planes.shape[1], _PIECE)
    new = b"".join(
        _moved(old[4 * i : 4 * (i + _PIECE)], planes[:, i : i + _PIECE]) for i in pieces
    )
    if _digest(new) != delta[_HEAD - 32 : _HEAD]:
        raise DataError("A model's delta is damaged: it makes another model. Download it whole.")
    return new


def _moved(old: bytes, planes: np.ndarray) -> bytes:
    """A piece of the new model, from that of the old one and the planes of its steps."""
    zigzag = np.ascontiguousarray(planes.T).view("<u4").reshape(-1)
    steps = (zigzag >> np.uint32(1)) ^ (np.uint32(0) - (zigzag & np.uint32(1)))
    ordered = _ordered(old) + steps
    return np.where(ordered & _SIGN, ordered ^ _SIGN, ~ordered).astype("<u4").tobytes()


def _ordered(model: bytes) -> np.ndarray:
    """[numbers] uint32 that are in the order of the floats whose bits they hold."""
    bits = np.frombuffer(model, "<u4").astype(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits ^ _SIGN)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def main(old: str, delta: str) -> int:
    """The exit code; 1, and nothing is changed, where the delta does not fit."""
    path = pathlib.Path(delta)
    try:
        new = apply(files.read_bytes(pathlib.Path(old)), files.read_bytes(path))
    except DataError:
        return 1
    files.write_atomically(path, [new], mode=files.OWNER_ONLY)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
