"""What devices and server send each other in a secure sum, and what both must know before."""

import dataclasses
import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tff_keyboard.wire.secure_sums.masks import WORDS, is_key

DIGEST_BYTES = 32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """One secure sum, the same for all.

    Attributes:
      label: Names run, round and attempt; no two sums share one.
      size: Integers of a vector.
      bits: 16, 32 or 64: the sum is modulo 2^bits.
      degree: Neighbours of a device, even.
      threshold: Shares that give a secret. More than half the degree, so that no server gets both
        secrets of a device from devices that each give one kind.
    """

    label: bytes
    size: int
    bits: int
    degree: int
    threshold: int

    def __post_init__(self) -> None:
        if self.bits not in WORDS:
            raise ValueError(f"`bits` must be one of {tuple(WORDS)}, got {self.bits}.")
        if not self.degree / 2 < self.threshold <= self.degree:
            raise ValueError(
                f"`threshold` must be above half of `degree` = {self.degree} and at most that, "
                f"got {self.threshold}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advert:
    """A device's keys for one round.

    Attributes:
      device: Its Ed25519 key, which names it.
      channel: X25519 key that shares are encrypted under.
      mask: X25519 key that pairwise masks are made of.
      signature: The device's, over the label and both keys.
    """

    device: bytes
    channel: bytes
    mask: bytes
    signature: bytes

    @classmethod
    def signed(
        cls, key: Ed25519PrivateKey, label: bytes, *, channel: bytes, mask: bytes
    ) -> "Advert":
        """An advert with its signature."""
        device = key.public_key().public_bytes_raw()
        signature = key.sign(_signed_bytes(label, channel, mask))
        return cls(device=device, channel=channel, mask=mask, signature=signature)

    def is_genuine(self, label: bytes) -> bool:
        """Whether the device signed it for that round, and others can use its keys."""
        if not (is_key(self.channel) and is_key(self.mask)):
            return False
        try:
            Ed25519PublicKey.from_public_bytes(self.device).verify(
                self.signature, _signed_bytes(label, self.channel, self.mask)
            )
        except (InvalidSignature, ValueError):
            return False
        return True


@dataclasses.dataclass(frozen=True, kw_only=True)
class Envelope:
    """Shares of both secrets of `sender`, which only `recipient` can read.

    `own` and `pair` are digests of the two shares: who gives another share later is found out.
    """

    sender: bytes
    recipient: bytes
    sealed: bytes
    own: bytes
    pair: bytes


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shares:
    """All envelopes of a device, and the digest of the secret of its own mask."""

    sender: bytes
    own_secret: bytes
    envelopes: tuple[Envelope, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unmask:
    """What a device is asked: which of its neighbours reported, and which shared but did not."""

    reported: frozenset[bytes]
    dropped: frozenset[bytes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reveal:
    """Shares by neighbour: of the own mask of one that reported, of the pair key of the others."""

    device: bytes
    shares: dict[bytes, bytes]


def digest(label: bytes, kind: bytes, secret: bytes) -> bytes:
    """SHA-256 of a share or secret, bound to its round and kind; a secret has 256 random bits."""
    return hashlib.sha256(b"%d %b %b" % (len(label), label + kind, secret)).digest()


def _signed_bytes(label: bytes, channel: bytes, mask: bytes) -> bytes:
    return b"tff-keyboard secure sum 1 " + channel + mask + label
