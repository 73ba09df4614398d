"""A device in a secure sum: its messages, and the requests that it rejects.

    y_i = x_i + stream(b_i) + sum over paired j of  +- stream(agreed key of i and j)   mod 2^bits

The sign is plus if i's key is the lesser. b_i and i's private key of masks are shared among its
neighbours. The device trusts no statement of the server about another device without that device's
signature:

- It counts a pair as reported only if that pair signed that its masked vector has their common
  mask.
- It answers once which of its pairs reported, tells them so by a signed confirmation, and never
  gives both kinds of share of one pair.
- It reveals shares only when `threshold` of its own pairs have confirmed that they count it as
  reported.

`neighbours.py` proves what a server cannot learn from such devices.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tff_keyboard_fleet.wire.secure_sums import masks, shamir
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError
from tff_keyboard_fleet.wire.secure_sums.messages import (
    Advert,
    Confirmations,
    Envelope,
    Question,
    Report,
    Reveal,
    Settings,
    Shares,
    digest,
    is_confirmation,
    is_included,
    sign_confirmation,
    sign_included,
)

OWN, PAIR = b" own", b" pair"
_NONCE_BYTES, _TAG_BYTES = 12, 16
SEALED_BYTES = _NONCE_BYTES + 2 * shamir.SHARE_BYTES + _TAG_BYTES


class Device:
    """One device in one round. Each step is called once, in the order of the methods.

    Args:
      settings: Settings of the sum.
      key: Signs the device's advert and its statements about its pairs.
      is_known: Returns whether a neighbour's Ed25519 key belongs to a real device. The default
        trusts the server, which could then surround a device by devices of its own.
    """

    def __init__(
        self,
        settings: Settings,
        key: Ed25519PrivateKey,
        is_known: Callable[[bytes], bool] = lambda device: True,
    ):
        self._settings = settings
        self._context = settings.context
        self._key = key
        self._is_known = is_known
        self._channel = X25519PrivateKey.generate()
        self._mask = X25519PrivateKey.generate()
        self._own_secret = secrets.token_bytes(shamir.SECRET_BYTES)
        self._neighbours: dict[bytes, Advert] = {}
        self._received: dict[bytes, Envelope] = {}
        self._reported: frozenset[bytes] | None = None
        self.advert = Advert.signed(
            key,
            self._context,
            channel=self._channel.public_key().public_bytes_raw(),
            mask=self._mask.public_key().public_bytes_raw(),
        )
        self.name = self.advert.device

    def share(self, adverts: Sequence[Advert]) -> Shares:
        """Step 2: returns both secrets in shares for the neighbours.

        Raises:
          SecureSumError: If the neighbours are not `degree` other devices with X25519 keys of their
            own.
        """
        degree = self._settings.degree
        everyone = [self.advert, *adverts]
        names = {advert.device for advert in everyone}
        keys = {key for advert in everyone for key in (advert.channel, advert.mask)}
        if (len(adverts), len(names), len(keys)) != (degree, degree + 1, 2 * degree + 2):
            raise SecureSumError(
                f"A device needs {degree} neighbours with keys that are all different, got "
                f"{len(adverts)} with {len(names) - 1} names and {len(keys) - 2} keys."
            )
        if not all(x.is_genuine(self._context) and self._is_known(x.device) for x in adverts):
            raise SecureSumError("The keys of a neighbour are not signed by a known device.")
        if self._neighbours:
            raise SecureSumError("A device shares its secrets only once, but it was asked again.")
        self._neighbours = {x.device: x for x in sorted(adverts, key=lambda x: x.device)}
        points = range(1, degree + 1)
        own_shares, pair_shares = (
            shamir.split(secret, threshold=self._settings.threshold, points=points)
            for secret in (self._own_secret, self._mask.private_bytes_raw())
        )
        envelopes = map(self._sealed, self._neighbours.values(), own_shares, pair_shares)
        secret = digest(self._context, OWN, self._own_secret)
        return Shares(sender=self.name, own_secret=secret, envelopes=tuple(envelopes))

    def report(self, envelopes: Sequence[Envelope], vector: np.ndarray) -> Report:
        """Step 3: returns the masked vector, and a signature for each pair whose mask is in it.

        Args:
          envelopes: Envelopes for this device from the neighbours that have shared.
          vector: [size] integers. Negative integers count modulo 2^bits.

        Raises:
          SecureSumError: If the envelopes do not come from at least `threshold` of its neighbours.
        """
        settings = self._settings
        received = {envelope.sender: envelope for envelope in envelopes}
        if len(received) != len(envelopes) or not received.keys() <= self._neighbours.keys():
            raise SecureSumError("There must be one envelope from each neighbour.")
        if len(received) < settings.threshold:
            raise SecureSumError(
                f"Too few neighbours have shared: {len(received)} of {settings.threshold}."
            )
        if self._received:
            raise SecureSumError("A device reports only once, but it was asked again.")
        if vector.shape != (settings.size,) or vector.dtype.kind not in "iu":
            raise ValueError(f"The vector must have {settings.size} integers.")
        self._received = received
        masked = vector.astype(masks.WORDS[settings.bits])
        masked += own_stream(settings, self._own_secret)
        for other in received:
            add_pair_stream(
                masked, settings, self._mask, self._neighbours[other].mask, self.name < other
            )
        included = {
            other: sign_included(self._key, self._context, self.advert, self._neighbours[other])
            for other in received
        }
        return Report(device=self.name, masked=masked, included=included)

    def confirm(self, question: Question) -> Confirmations:
        """Step 4: fixes which pairs reported, and returns a confirmation for each of them.

        The same question again has the same answer.

        Raises:
          SecureSumError: If the lists are not a partition of its pairs, if too few reported, if a
            pair did not sign that its vector has the common mask, or if another question was
            answered before.
        """
        pairs, reported = self._received.keys(), frozenset(question.reported)
        if reported & question.dropped or reported | question.dropped != pairs:
            raise SecureSumError("Each pair must be named once, as reported or as dropped.")
        if not pairs or len(reported) < self._settings.threshold:
            raise SecureSumError(
                f"Too few neighbours reported: {len(reported)} of {self._settings.threshold}."
            )
        if self._reported not in (None, reported):
            raise SecureSumError(
                "A device says only once which neighbours reported, but it was asked again."
            )
        adverts = {other: self._neighbours[other] for other in sorted(reported)}
        for other, advert in adverts.items():
            if not is_included(question.reported[other], self._context, advert, self.advert):
                raise SecureSumError("A neighbour did not sign that it reported with this device.")
        self._reported = reported
        signatures = {
            other: sign_confirmation(self._key, self._context, self.advert, advert)
            for other, advert in adverts.items()
        }
        return Confirmations(device=self.name, signatures=signatures)

    def unmask(self, confirmations: Mapping[bytes, bytes]) -> Reveal:
        """Step 5: returns a share of each pair, by the lists that `confirm` fixed.

        Leaves out a pair whose envelope does not match its digests.

        Args:
          confirmations: Signatures of pairs that count this device as reported, by signer.

        Raises:
          SecureSumError: If fewer than `threshold` pairs have confirmed, or `confirm` was not
            called.
        """
        confirmed = sum(
            is_confirmation(signature, self._context, self._neighbours[other], self.advert)
            for other, signature in confirmations.items()
            if other in self._received
        )
        if self._reported is None or confirmed < self._settings.threshold:
            raise SecureSumError(
                f"Too few neighbours confirmed that this device reported: {confirmed} of "
                f"{self._settings.threshold}."
            )
        opened = {other: self._opened(other, other in self._reported) for other in self._received}
        shares = {other: share for other, share in opened.items() if share is not None}
        return Reveal(device=self.name, shares=shares)

    def _sealed(self, to: Advert, own_share: bytes, pair_share: bytes) -> Envelope:
        """Returns the shares of this device's two secrets, encrypted for a neighbour."""
        context, nonce = self._context, secrets.token_bytes(_NONCE_BYTES)
        between = context + self.name + to.device
        sealed = nonce + self._cipher(to).encrypt(nonce, own_share + pair_share, between)
        return Envelope(
            sender=self.name,
            recipient=to.device,
            sealed=sealed,
            own=digest(context, OWN, own_share),
            pair=digest(context, PAIR, pair_share),
        )

    def _opened(self, other: bytes, is_own: bool) -> bytes | None:
        """Returns a neighbour's share of its own or its pair secret; None if the share is false."""
        envelope, context = self._received[other], self._context
        nonce, sealed = envelope.sealed[:_NONCE_BYTES], envelope.sealed[_NONCE_BYTES:]
        between = context + other + self.name
        try:
            shares = self._cipher(self._neighbours[other]).decrypt(nonce, sealed, between)
        except (InvalidTag, ValueError):
            return None
        own_share, pair_share = shares[: shamir.SHARE_BYTES], shares[shamir.SHARE_BYTES :]
        digests = digest(context, OWN, own_share), digest(context, PAIR, pair_share)
        if digests != (envelope.own, envelope.pair):
            return None
        return own_share if is_own else pair_share

    def _cipher(self, other: Advert) -> AESGCM:
        context = self._context + b" channel"
        return AESGCM(masks.shared_key(self._channel, other.channel, context))


def own_stream(settings: Settings, secret: bytes) -> np.ndarray:
    """Returns the own mask of a device."""
    return masks.stream(secret, settings.size, bits=settings.bits, context=settings.context + OWN)


def add_pair_stream(
    masked: np.ndarray, settings: Settings, private: X25519PrivateKey, public: bytes, plus: bool
) -> None:
    """Adds the mask of two devices to `masked`, or subtracts it, in place."""
    context = settings.context + PAIR
    key = masks.shared_key(private, public, context)
    mask = masks.stream(key, settings.size, bits=settings.bits, context=context)
    masked += mask if plus else -mask  # unsigned integers, so modulo 2^bits
