"""A device in a secure sum: what it sends, and what it refuses whatever the server asks.

    y_i = x_i + stream(b_i) + sum over paired j of  +- stream(agreed key of i and j)   mod 2^bits

with plus where i's key is the lesser. b_i and i's private key of masks are shared among its
neighbours. A device never gives both kinds of share of a neighbour, answers one request only, and
none that does not name each of its pairs once.
"""

import secrets
from collections.abc import Callable, Sequence

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tff_keyboard.storage.errors import SecureSumError
from tff_keyboard.wire.secure_sums import masks, shamir
from tff_keyboard.wire.secure_sums.messages import (
    Advert,
    Envelope,
    Reveal,
    Settings,
    Shares,
    Unmask,
    digest,
)

OWN, PAIR = b" own", b" pair"
_NONCE_BYTES, _TAG_BYTES = 12, 16
SEALED_BYTES = _NONCE_BYTES + 2 * shamir.SHARE_BYTES + _TAG_BYTES


class Device:
    """One device in one round; each step once, in the order of the methods.

    Args:
      key: Signs its advert.
      is_known: Whether a neighbour's Ed25519 key is that of a real device. The default believes
        the server, which could then surround a device by devices of its own.
    """

    def __init__(
        self,
        settings: Settings,
        key: Ed25519PrivateKey,
        is_known: Callable[[bytes], bool] = lambda device: True,
    ):
        self._settings = settings
        self._is_known = is_known
        self._channel = X25519PrivateKey.generate()
        self._mask = X25519PrivateKey.generate()
        self._own_secret = secrets.token_bytes(shamir.SECRET_BYTES)
        self._neighbours: dict[bytes, Advert] = {}
        self._received: dict[bytes, Envelope] = {}
        self._asked: Unmask | None = None
        self.advert = Advert.signed(
            key,
            settings.label,
            channel=self._channel.public_key().public_bytes_raw(),
            mask=self._mask.public_key().public_bytes_raw(),
        )
        self.name = self.advert.device

    def share(self, adverts: Sequence[Advert]) -> Shares:
        """Step 2: both secrets in shares for the neighbours.

        Raises:
          SecureSumError: The neighbours are not `degree` other devices with X25519 keys of their
            own.
        """
        label, degree = self._settings.label, self._settings.degree
        everyone = [self.advert, *adverts]
        names = {advert.device for advert in everyone}
        keys = {key for advert in everyone for key in (advert.channel, advert.mask)}
        if (len(adverts), len(names), len(keys)) != (degree, degree + 1, 2 * degree + 2):
            raise SecureSumError(
                f"A device needs {degree} neighbours with keys that are all different, got "
                f"{len(adverts)} with {len(names) - 1} names and {len(keys) - 2} keys."
            )
        if not all(x.is_genuine(label) and self._is_known(x.device) for x in adverts):
            raise SecureSumError("A neighbour's keys are not signed by a device that is known.")
        if self._neighbours:
            raise SecureSumError("A device shares its secrets once; it was asked again.")
        self._neighbours = {x.device: x for x in sorted(adverts, key=lambda x: x.device)}
        points = range(1, degree + 1)
        own, pair = (
            shamir.split(secret, threshold=self._settings.threshold, points=points)
            for secret in (self._own_secret, self._mask.private_bytes_raw())
        )
        envelopes = map(self._sealed, self._neighbours.values(), own, pair)
        secret = digest(label, OWN, self._own_secret)
        return Shares(sender=self.name, own_secret=secret, envelopes=tuple(envelopes))

    def report(self, envelopes: Sequence[Envelope], vector: np.ndarray) -> np.ndarray:
        """Step 3: the vector behind its masks, [size] unsigned.

        Args:
          envelopes: What is for this device, of the neighbours that have shared.
          vector: [size] integers; negative ones count modulo 2^bits.

        Raises:
          SecureSumError: The envelopes are not those of at least `threshold` of its neighbours.
        """
        settings = self._settings
        received = {envelope.sender: envelope for envelope in envelopes}
        if len(received) != len(envelopes) or not received.keys() <= self._neighbours.keys():
            raise SecureSumError("Envelopes must be of neighbours, one each.")
        if len(received) < settings.threshold:
            raise SecureSumError(
                f"Too few neighbours have shared: {len(received)} of {settings.threshold}."
            )
        if self._received:
            raise SecureSumError("A device reports once; it was asked again.")
        if vector.shape != (settings.size,) or vector.dtype.kind not in "iu":
            raise ValueError(f"A vector of {settings.size} integers is needed.")
        self._received = received
        masked = vector.astype(masks.WORDS[settings.bits])
        masked += own_stream(settings, self._own_secret)
        for other in received:
            add_pair_stream(
                masked, settings, self._mask, self._neighbours[other].mask, self.name < other
            )
        return masked

    def unmask(self, asked: Unmask) -> Reveal:
        """Step 4: a share of each neighbour; the same question again has the same answer.

        A neighbour whose envelope does not hold what its digests say is left out.

        Raises:
          SecureSumError: The lists are not a partition of its pairs, too few reported, or another
            question was answered.
        """
        pairs = self._received.keys()
        if asked.reported & asked.dropped or asked.reported | asked.dropped != pairs:
            raise SecureSumError("Each pair must be named once, as reported or as dropped.")
        if not pairs or len(asked.reported) < self._settings.threshold:
            raise SecureSumError(
                f"Too few neighbours reported: {len(asked.reported)} of {self._settings.threshold}."
            )
        if self._asked not in (None, asked):
            raise SecureSumError("A device answers once which neighbours reported; asked again.")
        self._asked = asked
        opened = {other: self._opened(other, other in asked.reported) for other in pairs}
        found = {other: share for other, share in opened.items() if share is not None}
        return Reveal(device=self.name, shares=found)

    def _sealed(self, to: Advert, own: bytes, pair: bytes) -> Envelope:
        label, nonce = self._settings.label, secrets.token_bytes(_NONCE_BYTES)
        between = label + self.name + to.device
        sealed = nonce + self._cipher(to).encrypt(nonce, own + pair, between)
        return Envelope(
            sender=self.name,
            recipient=to.device,
            sealed=sealed,
            own=digest(label, OWN, own),
            pair=digest(label, PAIR, pair),
        )

    def _opened(self, other: bytes, is_own: bool) -> bytes | None:
        envelope, label = self._received[other], self._settings.label
        nonce, sealed = envelope.sealed[:_NONCE_BYTES], envelope.sealed[_NONCE_BYTES:]
        between = label + other + self.name
        try:
            shares = self._cipher(self._neighbours[other]).decrypt(nonce, sealed, between)
        except (InvalidTag, ValueError):
            return None
        own, pair = shares[: shamir.SHARE_BYTES], shares[shamir.SHARE_BYTES :]
        if digest(label, OWN, own) != envelope.own or digest(label, PAIR, pair) != envelope.pair:
            return None
        return own if is_own else pair

    def _cipher(self, other: Advert) -> AESGCM:
        context = self._settings.label + b" channel"
        return AESGCM(masks.shared_key(self._channel, other.channel, context))


def own_stream(settings: Settings, secret: bytes) -> np.ndarray:
    """The mask that a device has for itself."""
    return masks.stream(secret, settings.size, bits=settings.bits, context=settings.label + OWN)


def add_pair_stream(
    masked: np.ndarray, settings: Settings, private: X25519PrivateKey, public: bytes, plus: bool
) -> None:
    """Adds the mask of two devices to `masked`, or takes it off, in place."""
    context = settings.label + PAIR
    key = masks.shared_key(private, public, context)
    mask = masks.stream(key, settings.size, bits=settings.bits, context=context)
    masked += mask if plus else -mask  # of unsigned integers, modulo 2^bits
