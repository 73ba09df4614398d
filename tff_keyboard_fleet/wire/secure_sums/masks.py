"""Keys that two devices share, and the streams of masks derived from keys.

Keys: X25519, then HKDF-SHA256 with the round, the purpose and both public keys. Streams: AES-256 in
counter mode, with a fresh key for each. Vectors are unsigned integers of 16, 32 or 64 bits, so that
NumPy adds modulo 2^bits.
"""

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

WORDS: dict[int, np.dtype] = {bits: np.dtype(f"<u{bits // 8}") for bits in (16, 32, 64)}
_ANY = X25519PrivateKey.generate()  # any key detects points of small order: the result is zero


def shared_key(private: X25519PrivateKey, public: bytes, context: bytes) -> bytes:
    """Returns 32 bytes that both sides derive.

    Raises:
      ValueError: If the public key is not valid, or has a small order.
    """
    secret = private.exchange(X25519PublicKey.from_public_bytes(public))
    ends = b"".join(sorted([private.public_key().public_bytes_raw(), public]))
    return _derived(secret, context + ends)


def is_key(public: bytes) -> bool:
    """Returns whether `public` is valid for a key agreement: 32 bytes, not of small order."""
    try:
        _ANY.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return False
    return True


def stream(key: bytes, size: int, *, bits: int, context: bytes) -> np.ndarray:
    """Returns [size] integers, uniform modulo 2^bits to anyone without the key."""
    cipher = Cipher(algorithms.AES256(_derived(key, context)), modes.CTR(bytes(16)))
    word = WORDS[bits]
    return np.frombuffer(cipher.encryptor().update(bytes(size * word.itemsize)), word)


def _derived(secret: bytes, context: bytes) -> bytes:
    return HKDF(hashes.SHA256(), length=32, salt=None, info=context).derive(secret)
