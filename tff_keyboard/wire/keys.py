"""Ed25519 keys of devices and server, and the signature of a request.

A request carries three headers: the device's public key, its clock, and the signature over
method, path, clock and the SHA-256 of the body. The key is the device's whole identity: there is no
account and no name.
Whoever copies a request can send it again, and nothing else, as long as its time holds.
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
from tff_keyboard.wire.messages import Refused

DEVICE_KEY, DEVICE_TIME, DEVICE_SIGNATURE = "Device-Key", "Device-Time", "Device-Signature"
MOST_SECONDS_OFF = 300  # of a device's clock

_CONTEXT = "tff-keyboard request 1"


def open_key(path: pathlib.Path) -> Ed25519PrivateKey:
    """The private key at `path`, PEM, mode 0600; made and written if there is none.

    Raises:
      ProgramError: The file is something else, or cannot be written.
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
        found = serialization.load_pem_private_key(files.read_bytes(path), password=None)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, Ed25519PrivateKey):
        raise ProgramError(f"{path}: no unencrypted Ed25519 key. Restore it, or remove the file.")
    return found


def public_hex(key: Ed25519PrivateKey) -> str:
    """The public half, 64 hexadecimal digits."""
    raw = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return raw.hex()


def sign_request(
    key: Ed25519PrivateKey, method: str, path: str, body: bytes, now: float | None = None
) -> dict[str, str]:
    """The three headers of a request; `now` is the device's clock, seconds since 1970."""
    clock = str(int(time.time() if now is None else now))
    return {
        DEVICE_KEY: public_hex(key),
        DEVICE_TIME: clock,
        DEVICE_SIGNATURE: key.sign(_signed(method, path, clock, body)).hex(),
    }


def check_request(
    headers: Mapping[str, str], method: str, path: str, body: bytes, now: float
) -> str:
    """The device's public key in hex, of a request whose signature is sound.

    Raises:
      Refused: "bad_signature", or "stale_time" if clocks differ by over `MOST_SECONDS_OFF`.
    """
    device, clock = headers.get(DEVICE_KEY, ""), headers.get(DEVICE_TIME, "")
    try:
        signature = bytes.fromhex(headers.get(DEVICE_SIGNATURE, ""))
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(device))
        key.verify(signature, _signed(method, path, clock, body))
        seconds_off = abs(int(clock) - now)
    except (ValueError, OverflowError, InvalidSignature):
        raise Refused("bad_signature", "not signed by the device that it names") from None
    if seconds_off > MOST_SECONDS_OFF:
        raise Refused("stale_time", f"the clock is off by more than {MOST_SECONDS_OFF} s")
    return bytes.fromhex(device).hex()  # a key has one name, however it was written


def _signed(method: str, path: str, clock: str, body: bytes) -> bytes:
    digest = hashlib.sha256(body).hexdigest()
    return "\n".join([_CONTEXT, f"{method} {path}", clock, digest]).encode()
