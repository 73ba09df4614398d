"""Gaussian draws in double precision from a cryptographic generator.

A draw depends only on (key, label). AES-256 in counter mode uses a separate key for each label,
HMAC-SHA256(key, label), so that no two labels share a stream. The Box-Muller transform uses 64 bits
for the radius and 53 for the angle, and 64 more bits if the first 64 are tiny. The distribution is
therefore not cut off below |z| = 13.3, which a normal variable exceeds once in 1e40 draws.
(TensorFlow's float32 generator ends at 5.678.) Doubles are still a grid: docs/privacy.md.
"""

import hashlib
import hmac
import math

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

_TINY = 1 << 11  # below this, 64 bits give less than the precision of a double
_CHUNK = 1 << 16  # pairs at a time, which fit in the CPU cache


def keyed_bytes(key: bytes, label: str, count: int) -> bytes:
    """Returns `count` bytes of the stream of `label`, such as "delta round 12".

    `key` has 32 bytes.
    """
    subkey = hmac.digest(key, label.encode(), hashlib.sha256)
    encryptor = Cipher(algorithms.AES256(subkey), modes.CTR(bytes(16))).encryptor()
    return encryptor.update(bytes(count))


def keyed_uint64(key: bytes, label: str, size: int) -> np.ndarray:
    """Returns uniform draws, [size] uint64."""
    return np.frombuffer(keyed_bytes(key, label, 8 * size), "<u8")


def keyed_normal(key: bytes, label: str, size: int) -> np.ndarray:
    """Returns independent N(0, 1) draws, [size] float64, which depend only on (key, label, size).

    >>> keyed_normal(bytes(32), "example", 3).shape
    (3,)
    """
    pairs = -(-size // 2)
    bits = keyed_uint64(key, label, 2 * pairs)
    result = np.empty([2, pairs])
    for start in range(0, pairs, _CHUNK):
        end = min(start + _CHUNK, pairs)
        radius = np.sqrt(-2 * log_uniform(bits[start:end], key, f"{label} tail {start}"))
        angle = (bits[pairs + start : pairs + end] >> np.uint64(11)) * (2 * math.pi * 2.0**-53)
        np.multiply(radius, np.cos(angle), out=result[0, start:end])
        np.multiply(radius, np.sin(angle), out=result[1, start:end])
    return result.reshape(-1)[:size]


def log_uniform(bits: np.ndarray, key: bytes, label: str) -> np.ndarray:
    """Returns ln of uniforms in (0, 1) from 64 bits each, or from 128 bits if 64 are too few."""
    uniform = (bits.astype(np.float64) + 0.5) * 2.0**-64
    tiny = np.flatnonzero(bits < _TINY)
    if len(tiny):
        further = (keyed_uint64(key, label, len(tiny)).astype(np.float64) + 0.5) * 2.0**-64
        uniform[tiny] = (bits[tiny].astype(np.float64) + further) * 2.0**-64
    return np.log(np.minimum(uniform, 1 - 2.0**-53))
