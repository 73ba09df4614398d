"""Participation tokens: the server's signature under (run, device, round).

A device keeps its newest and shows it when it checks in; so it can prove that it has kept the
minimum separation to a server that has long forgotten it. The server itself keeps
HMAC-SHA256(secret, device key) of those who took part, only as long as the separation lasts, and
that finds a device which hides its token meanwhile. A device with a new key is a new device.
"""

import dataclasses
import hashlib
import hmac

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tff_keyboard.wire.messages import Refused

_CONTEXT = "tff-keyboard participation 1"


@dataclasses.dataclass(frozen=True)
class Participation:
    """When a device took part: run, round >= 1, and which attempt of the round, >= 1."""

    run: str
    round: int
    attempt: int


def sign(key: Ed25519PrivateKey, device: str, took_part: Participation) -> str:
    """The token of a device, by its public key in hex. The same arguments give the same token."""
    fields = (took_part.run, str(took_part.round), str(took_part.attempt))
    return ".".join([*fields, key.sign(_signed(device, fields)).hex()])


def check(key: Ed25519PublicKey, device: str, token: str) -> Participation:
    """What a token says, if the owner of `key` made it for this device.

    Raises:
      Refused: "forged_token".
    """
    *fields, signature = token.split(".")
    try:
        run, round_num, attempt = fields
        key.verify(bytes.fromhex(signature), _signed(device, (run, round_num, attempt)))
        return Participation(run, int(round_num), int(attempt))
    except (ValueError, InvalidSignature):
        raise Refused("forged_token", "not a token that this server gave to this device") from None


def digest(secret: bytes, device: str) -> bytes:
    """The pseudonym of a device at the server that has the secret, 16 bytes."""
    return hmac.digest(secret, device.encode(), hashlib.sha256)[:16]


def _signed(device: str, fields: tuple[str, ...]) -> bytes:
    return "\n".join([_CONTEXT, device, *fields]).encode()
