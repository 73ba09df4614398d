"""Participation tokens: the server's signature under (run, device, round).

A device keeps its newest token and sends it when it checks in. So it proves that it has kept the
minimum separation, even if the server has deleted its own record. The server keeps
HMAC-SHA256(secret, device key) of each device that took part, as long as the separation lasts, and
so detects a device that hides its token in this time. A device with a new key counts as new.
"""

import dataclasses
import hashlib
import hmac

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tff_keyboard_fleet.wire.messages import Refused

_CONTEXT = "tff-keyboard participation 1"


@dataclasses.dataclass(frozen=True)
class Participation:
    """A participation of a device: run, round >= 1, and attempt at the round, >= 1."""

    run: str
    round: int
    attempt: int


def sign(key: Ed25519PrivateKey, device: str, took_part: Participation) -> str:
    """Returns the token of a device, given its public key in hex.

    The same arguments give the same token.
    """
    fields = (took_part.run, str(took_part.round), str(took_part.attempt))
    return ".".join([*fields, key.sign(_signed_bytes(device, fields)).hex()])


def check(key: Ed25519PublicKey, device: str, token: str) -> Participation:
    """Checks that the owner of `key` made a token for this device, and returns its content.

    Raises:
      Refused: "forged_token".
    """
    *fields, signature = token.split(".")
    try:
        run, round_num, attempt = fields
        key.verify(bytes.fromhex(signature), _signed_bytes(device, (run, round_num, attempt)))
        return Participation(run, int(round_num), int(attempt))
    except (ValueError, InvalidSignature):
        raise Refused("forged_token", "not a token of this server for this device") from None


def digest(secret: bytes, device: str) -> bytes:
    """Returns the pseudonym of a device at the server that has the secret, 16 bytes."""
    return hmac.digest(secret, device.encode(), hashlib.sha256)[:16]


def _signed_bytes(device: str, fields: tuple[str, ...]) -> bytes:
    return "\n".join([_CONTEXT, device, *fields]).encode()
