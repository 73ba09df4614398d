"""The server of a secure sum: relays, adds up, and takes off the masks that are left.

It holds one vector, whatever the number of devices. What a device sends is taken or refused by a
`SecureSumError`, and nothing else changes; `neighbours`, `envelopes`, `questions` close a step.
"""

import collections
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tff_keyboard.storage.errors import SecureSumError
from tff_keyboard.wire.secure_sums import masks, shamir
from tff_keyboard.wire.secure_sums.device import (
    OWN,
    PAIR,
    SEALED_BYTES,
    add_pair_stream,
    own_stream,
)
from tff_keyboard.wire.secure_sums.messages import (
    DIGEST_BYTES,
    Advert,
    Envelope,
    Reveal,
    Settings,
    Shares,
    Unmask,
    digest,
)
from tff_keyboard.wire.secure_sums.neighbours import circle

_ADVERTISE, _SHARE, _REPORT, _UNMASK = "advertise", "share", "report", "unmask"


class Server:
    """One secure sum.

    Args:
      least: Devices that must report, > `degree`: a sum of fewer is not made.

    Attributes:
      reported: Devices whose vectors are in the sum.
    """

    def __init__(self, settings: Settings, *, least: int):
        if least <= settings.degree:
            raise ValueError(f"`least` must be above {settings.degree}, got {least}.")
        self._settings, self._least = settings, least
        self._step = _ADVERTISE
        self._adverts: dict[bytes, Advert] = {}
        self._keys: set[bytes] = set()
        self._circle: dict[bytes, list[bytes]] = {}
        self._shares: dict[bytes, Shares] = {}
        self._total = np.zeros(settings.size, masks.WORDS[settings.bits])
        self.reported: set[bytes] = set()
        self._revealed: dict[bytes, Mapping[bytes, bytes]] = {}

    def advertise(self, advert: Advert) -> None:
        """Step 1: keys of this device alone, else its neighbours would refuse all that they get.

        Nobody knows the X25519 keys of others before they advertise, and who copies them later is
        refused. Ed25519 keys are known from earlier sums: one that somebody had as his X25519 key
        already is taken, and devices compare keys of one kind.
        """
        self._require(_ADVERTISE, advert.device not in self._adverts, "advertised before")
        keys = {advert.channel, advert.mask}
        are_its_own = len(keys - {advert.device}) == 2 and not keys & self._keys
        self._require(_ADVERTISE, are_its_own, "has a key twice, or one of another device")
        self._require(_ADVERTISE, advert.is_genuine(self._settings.label), "has no valid signature")
        self._adverts[advert.device] = advert
        self._keys |= keys | {advert.device}

    def neighbours(self, order: Sequence[bytes] | None = None) -> dict[bytes, list[Advert]]:
        """For each device in a circle, the adverts of its neighbours.

        Args:
          order: The devices as an earlier server of this sum had them; None draws their order.
        """
        self._close(_ADVERTISE, len(self._adverts), _SHARE)
        devices = list(self._adverts if order is None else order)
        self._circle = circle(devices, self._settings.degree, is_ordered=order is not None)
        return {x: [self._adverts[y] for y in near] for x, near in self._circle.items()}

    def share(self, shares: Shares) -> None:
        """Step 2."""
        sender, envelopes = shares.sender, shares.envelopes
        self._require(_SHARE, sender in self._circle, "is not one of this sum's")
        self._require(_SHARE, sender not in self._shares, "shared before")
        near = sorted(self._circle[sender])
        fits = [x.recipient for x in envelopes] == near and {x.sender for x in envelopes} == {
            sender
        }
        self._require(_SHARE, fits, "needs one envelope for each neighbour, sorted")
        lengths = {(len(x.sealed), len(x.own), len(x.pair)) for x in envelopes}
        fits = lengths == {(SEALED_BYTES, DIGEST_BYTES, DIGEST_BYTES)}
        self._require(_SHARE, fits, "needs envelopes as long as all are")
        self._shares[sender] = shares

    def envelopes(self) -> dict[bytes, list[Envelope]]:
        """For each device that has shared, the envelopes of its neighbours that have."""
        self._close(_SHARE, len(self._shares), _REPORT)
        return {x: [self._envelope(y, x) for y in self._pairs(x)] for x in self._shares}

    def report(self, device: bytes, masked: np.ndarray) -> None:
        """Step 3: added at once and not kept."""
        self._require(_REPORT, device in self._shares, "has not shared")
        self._require(_REPORT, device not in self.reported, "reported before")
        fits = masked.shape == self._total.shape and masked.dtype == self._total.dtype
        self._require(_REPORT, fits, f"needs {self._settings.size} integers")
        self._total += masked
        self.reported.add(device)

    def questions(self) -> dict[bytes, Unmask]:
        """For each device that reported, what became of its pairs."""
        self._close(_REPORT, len(self.reported), _UNMASK)
        asked = {}
        for device in self.reported:
            pairs = set(self._pairs(device))
            asked[device] = Unmask(
                reported=frozenset(pairs & self.reported), dropped=frozenset(pairs - self.reported)
            )
        return asked

    def unmask(self, reveal: Reveal) -> None:
        """Step 4: taken if every share is the one that its owner gave that device."""
        self._require(_UNMASK, reveal.device in self.reported, "has not reported")
        pairs = self._pairs(reveal.device)
        for owner, share in reveal.shares.items():
            self._require(_UNMASK, owner in pairs, "reveals of a device it is no pair of")
            envelope = self._envelope(owner, reveal.device)
            kind, told = (OWN, envelope.own) if owner in self.reported else (PAIR, envelope.pair)
            is_it = digest(self._settings.label, kind, share) == told
            self._require(_UNMASK, is_it, "reveals a share that is not the one it was given")
        self._revealed[reveal.device] = reveal.shares

    @property
    def false_dealers(self) -> set[bytes]:
        """Devices that lack shares which pairs that revealed others left out.

        To frame a dealer takes as many colluding neighbours as to lose the sum by silence: degree -
        threshold + 1, less those that dropped out.
        """
        told = [x for x, shares in self._revealed.items() if shares]
        asked = collections.Counter(y for x in told for y in self._pairs(x))
        given, threshold = self._given(), self._settings.threshold
        return {dealer for dealer in asked if given[dealer] < threshold <= asked[dealer]}

    @property
    def can_sum(self) -> bool:
        """Whether enough shares of every mask that is left are there."""
        given = self._given()
        needed = [x for x in self._shares if x in self.reported or self._left(x)]
        return all(given[x] >= self._settings.threshold for x in needed)

    def sum(self) -> np.ndarray:
        """[size] unsigned: the sum of the vectors of `reported`, modulo 2^bits.

        Raises:
          SecureSumError: Too few shares of some device, or a device that shared something else than
            its secret; without its masks there is no sum.
        """
        self._require(_UNMASK, True, "")
        total, settings = self._total.copy(), self._settings
        for device in self.reported:
            secret = self._secret(device)
            if digest(settings.label, OWN, secret) != self._shares[device].own_secret:
                raise _blamed(device, "shared another secret than that of its mask")
            total -= own_stream(settings, secret)
        for device in self._shares.keys() - self.reported:
            left = self._left(device)
            if not left:
                continue
            key = X25519PrivateKey.from_private_bytes(self._secret(device))
            if key.public_key().public_bytes_raw() != self._adverts[device].mask:
                raise _blamed(device, "shared another key than it advertised")
            for other in left:  # takes off what `other` has put on
                add_pair_stream(total, settings, key, self._adverts[other].mask, other > device)
        return total

    def _given(self) -> collections.Counter[bytes]:
        """How many shares of each device were revealed."""
        return collections.Counter(x for shares in self._revealed.values() for x in shares)

    def _secret(self, device: bytes) -> bytes:
        points = {x: point for point, x in enumerate(sorted(self._circle[device]), 1)}
        shares = {
            points[x]: self._revealed[x][device]
            for x in self._pairs(device)
            if device in self._revealed.get(x, ())
        }
        if len(shares) < self._settings.threshold:
            raise SecureSumError(
                f"Device {device.hex()[:16]} cannot be unmasked: {len(shares)} of "
                f"{self._settings.threshold} shares are there."
            )
        secret = shamir.join(shares)
        if secret is None:
            raise _blamed(device, "dealt shares of no secret")
        return secret

    def _pairs(self, device: bytes) -> list[bytes]:
        return [x for x in self._circle[device] if x in self._shares]

    def _left(self, device: bytes) -> list[bytes]:
        """Devices with whose vectors a mask shared with `device` is in the sum."""
        return [x for x in self._pairs(device) if x in self.reported]

    def _envelope(self, sender: bytes, recipient: bytes) -> Envelope:
        place = sorted(self._circle[sender]).index(recipient)
        return self._shares[sender].envelopes[place]

    def _close(self, step: str, count: int, following: str) -> None:
        self._require(step, True, "")
        if count < self._least:
            raise SecureSumError(f"A secure sum needs {self._least} devices, got {count}: {step}.")
        self._step = following

    def _require(self, step: str, rule: bool, problem: str) -> None:
        if self._step != step:
            raise SecureSumError(f"A secure sum is at the step {self._step!r}, not {step!r}.")
        if not rule:
            raise SecureSumError(f"Step {step!r} of a secure sum: a device {problem}.")


def _blamed(device: bytes, problem: str) -> SecureSumError:
    """The error of a dealer: each share that was revealed has the digest that the dealer told."""
    error = SecureSumError(f"Device {device.hex()[:16]} {problem}.")
    error.device = device
    return error
