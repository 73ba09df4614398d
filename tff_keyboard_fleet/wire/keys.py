"""Ed25519 keys of devices and server, and the signature of a request.

A request has three headers: the device's public key, its clock, and a signature over method, path,
clock and the SHA-256 of the body. The key is the device's only identity: there are no accounts and
no names.

An attacker who copies a request can only send the same request again, until its time expires.
Source: RFC 8032.
"""

import hashlib
import pathlib
import time
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.wire.messages import Refused

DEVICE_KEY, DEVICE_TIME, DEVICE_SIGNATURE = "Device-Key", "Device-Time", "Device-Signature"
MAX_SECONDS_OFF = 300  # largest accepted error of a device's clock

_CONTEXT = "tff-keyboard request 1"


def open_key(path: pathlib.Path) -> Ed25519PrivateKey:
    """Returns the private key at `path`, PEM, mode 0600.

    Generates and writes the key if the file does not exist.

    Raises:
      ProgramError: If the file is something else, or cannot be written.
    """
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        files.write_atomically(path, [pem], mode=files.OWNER_ONLY)
        return key
    try:
        loaded = serialization.load_pem_private_key(files.read_bytes(path), password=None)
    except (ValueError, TypeError):
        loaded = None
    if not isinstance(loaded, Ed25519PrivateKey):
        raise ProgramError(
            f"{path}: not an unencrypted Ed25519 key. Restore the key, or remove the file."
        )
    return loaded


def public_hex(key: Ed25519PrivateKey) -> str:
    """Returns the public key, 64 hexadecimal digits."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw.hex()


def sign_request(
    key: Ed25519PrivateKey, method: str, path: str, body: bytes, now: float | None = None
) -> dict[str, str]:
    """Returns the three headers of a request.

    `now` is the device's clock, in seconds since 1970.
    """
    clock = str(int(time.time() if now is None else now))
    return {
        DEVICE_KEY: public_hex(key),
        DEVICE_TIME: clock,
        DEVICE_SIGNATURE: key.sign(_signed(method, path, clock, body)).hex(),
    }


def check_request(
    headers: Mapping[str, str], method: str, path: str, body: bytes, now: float
) -> str:
    """Checks the signature of a request and returns the device's public key in hex.

    Raises:
      Refused: "bad_signature", or "stale_time" if the clocks differ by more than
        `MAX_SECONDS_OFF`.
    """
    device, clock = headers.get(DEVICE_KEY, ""), headers.get(DEVICE_TIME, "")
    try:
        signature = bytes.fromhex(headers.get(DEVICE_SIGNATURE, ""))
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(device))
        key.verify(signature, _signed(method, path, clock, body))
        seconds_off = abs(int(clock) - now)
    except (ValueError, OverflowError, InvalidSignature):
        raise Refused("bad_signature", "not signed by the device in it") from None
    if seconds_off > MAX_SECONDS_OFF:
        raise Refused("stale_time", f"the clock is off by more than {MAX_SECONDS_OFF} s")
    return bytes.fromhex(device).hex()  # a key has one name, however it was written


def _signed(method: str, path: str, clock: str, body: bytes) -> bytes:
    """Returns the bytes of a request that its signature covers."""
    digest = hashlib.sha256(body).hexdigest()
    return "\n".join([_CONTEXT, f"{method} {path}", clock, digest]).encode()
