"""The messages of a secure sum, its settings, and the signatures that devices check.

Every key, digest and signature is bound to `Settings.context`: the label and the numbers of the
sum. An advert has fresh keys, so a signature that names an advert is not valid in another attempt,
in another round, or under a label that the server uses twice.
"""

import dataclasses
import hashlib
from collections.abc import Mapping

import numpy as np
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tff_keyboard_fleet.wire.secure_sums.masks import WORDS, is_key

DIGEST_BYTES = 32
_ADVERT, _INCLUDED, _CONFIRM = b"advert", b"included", b"confirm"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one secure sum, the same for all devices.

    Attributes:
      label: Names run, round and attempt; no two sums share one.
      size: Number of integers of a vector.
      bits: 16, 32 or 64: the sum is modulo 2^bits.
      degree: Number of neighbours of a device, even.
      threshold: Number of shares that recover a secret, and of confirmations that a device waits
        for. More than half the degree; `neighbours.py` states the consequences.
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
                f"`threshold` must be > `degree` / 2 and <= `degree` = {self.degree}, "
                f"got {self.threshold}."
            )

    @property
    def context(self) -> bytes:
        """The bytes to which all messages of this sum are bound. They differ between sums."""
        return b"%d %d %d %d %b" % (
            self.size,
            self.bits,
            self.degree,
            self.threshold,
            self.label,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advert:
    """The keys of a device for one round.

    Attributes:
      device: The device's Ed25519 key, which is its name.
      channel: X25519 key that encrypts shares.
      mask: X25519 key from which pairwise masks are derived.
      signature: The device's signature over the sum's context and the three keys.
    """

    device: bytes
    channel: bytes
    mask: bytes
    signature: bytes = b""

    @classmethod
    def signed(
        cls, key: Ed25519PrivateKey, context: bytes, *, channel: bytes, mask: bytes
    ) -> "Advert":
        """Builds an advert with its signature."""
        device = key.public_key().public_bytes_raw()
        advert = cls(device=device, channel=channel, mask=mask)
        return dataclasses.replace(advert, signature=_sign(key, _ADVERT, context, advert))

    def is_genuine(self, context: bytes) -> bool:
        """Returns whether the device signed it for that sum and its keys are valid."""
        if not (is_key(self.channel) and is_key(self.mask)):
            return False
        return _is_signed(self.signature, self, _ADVERT, context, self)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Envelope:
    """Shares of both secrets of `sender`, which only `recipient` can read.

    `own` and `pair` are digests of the two shares: a recipient that reveals another share is
    detected.
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
class Report:
    """The masked vector of a device.

    Attributes:
      device: The sender.
      masked: [size] unsigned integers.
      included: Signatures of the sender (`sign_included`) by each device whose pairwise mask is in
        the vector.
    """

    device: bytes
    masked: np.ndarray
    included: Mapping[bytes, bytes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """The server's statement to a device about its pairs.

    Attributes:
      reported: Pairs whose masked vectors are in the sum, with their `included` signatures for the
        asked device.
      dropped: Pairs that shared their secrets but did not report.
    """

    reported: Mapping[bytes, bytes]
    dropped: frozenset[bytes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confirmations:
    """A device's signatures (`sign_confirmation`), one for each pair that reported."""

    device: bytes
    signatures: Mapping[bytes, bytes]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Reveal:
    """Shares by neighbour: of the own mask if the neighbour reported, else of its pair key."""

    device: bytes
    shares: Mapping[bytes, bytes]


def sign_included(key: Ed25519PrivateKey, context: bytes, sender: Advert, other: Advert) -> bytes:
    """Signs as `sender`: "the masked vector that I sent has the mask that I share with `other`"."""
    return _sign(key, _INCLUDED, context, sender, other)


def is_included(signature: bytes, context: bytes, sender: Advert, other: Advert) -> bool:
    """Returns whether it is `sender`'s signature by `sign_included`."""
    return _is_signed(signature, sender, _INCLUDED, context, sender, other)


def sign_confirmation(
    key: Ed25519PrivateKey, context: bytes, signer: Advert, about: Advert
) -> bytes:
    """Signs as `signer`: "I count `about` as reported and never give a share of its mask key"."""
    return _sign(key, _CONFIRM, context, signer, about)


def is_confirmation(signature: bytes, context: bytes, signer: Advert, about: Advert) -> bool:
    """Returns whether it is `signer`'s signature by `sign_confirmation`."""
    return _is_signed(signature, signer, _CONFIRM, context, signer, about)


def digest(context: bytes, kind: bytes, secret: bytes) -> bytes:
    """Returns the SHA-256 of a share or secret, bound to its sum and kind.

    It reveals nothing, because a secret has 256 random bits.
    """
    return hashlib.sha256(b"%d %b %b" % (len(context), context + kind, secret)).digest()


def _sign(key: Ed25519PrivateKey, purpose: bytes, context: bytes, *adverts: Advert) -> bytes:
    return key.sign(_signed_bytes(purpose, context, *adverts))


def _is_signed(
    signature: bytes, signer: Advert, purpose: bytes, context: bytes, *adverts: Advert
) -> bool:
    """Checks a signature of `signer` for a purpose in a round."""
    try:
        key = Ed25519PublicKey.from_public_bytes(signer.device)
        key.verify(signature, _signed_bytes(purpose, context, *adverts))
    except (InvalidSignature, ValueError):
        return False
    return True


def _signed_bytes(purpose: bytes, context: bytes, *adverts: Advert) -> bytes:
    """Returns the bytes under a signature.

    The purpose determines the number of adverts, each has 96 bytes and the context comes last, so
    no two statements have the same bytes.
    """
    keys = b"".join(each.device + each.channel + each.mask for each in adverts)
    return b"tff-keyboard secure sum 2 " + purpose + b" " + keys + context
