"""The server of a secure sum: it relays messages, adds vectors, and removes the remaining masks.

It stores one vector, whatever the number of devices. A device's message is either accepted, or
rejected with a `SecureSumError` that changes nothing. `neighbours`, `envelopes` and `questions`
close a step. Confirmations and shares are both accepted in the last step, because a device has
enough confirmations as soon as `threshold` of its pairs have sent theirs.
"""

import collections
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tff_keyboard_fleet.wire.secure_sums import masks, shamir
from tff_keyboard_fleet.wire.secure_sums.device import (
    OWN,
    PAIR,
    SEALED_BYTES,
    add_pair_stream,
    own_stream,
)
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError
from tff_keyboard_fleet.wire.secure_sums.messages import (
    DIGEST_BYTES,
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
)
from tff_keyboard_fleet.wire.secure_sums.neighbours import circle

_ADVERTISE, _SHARE, _REPORT, _UNMASK = "advertise", "share", "report", "unmask"


class Server:
    """One secure sum.

    Args:
      settings: Settings of the sum.
      min_devices: Number of devices that must report, > `degree`.

    Attributes:
      reported: Devices whose vectors are in the sum.
    """

    def __init__(self, settings: Settings, *, min_devices: int):
        if min_devices <= settings.degree:
            raise ValueError(f"`min_devices` must be > {settings.degree}, got {min_devices}.")
        self._settings, self._min_devices = settings, min_devices
        self._context = settings.context
        self._step = _ADVERTISE
        self._adverts: dict[bytes, Advert] = {}
        self._keys: set[bytes] = set()
        self._circle: dict[bytes, list[bytes]] = {}
        self._shares: dict[bytes, Shares] = {}
        self._total = np.zeros(settings.size, masks.WORDS[settings.bits])
        self.reported: set[bytes] = set()
        self._included: dict[bytes, Mapping[bytes, bytes]] = {}
        self._confirmed: dict[bytes, Mapping[bytes, bytes]] = {}
        self._revealed: dict[bytes, Mapping[bytes, bytes]] = {}

    def advertise(self, advert: Advert) -> None:
        """Step 1: accepts the keys of a device, if no other device has them.

        With keys of another device, its neighbours would reject all their adverts. Other devices do
        not know its X25519 keys before it advertises, and a device that copies them later is
        rejected. Ed25519 keys are known from earlier sums. An advert is therefore accepted even if
        another device already uses its Ed25519 key as an X25519 key; devices compare only keys of
        one kind.
        """
        self._require(_ADVERTISE, advert.device not in self._adverts, "advertised before")
        keys = {advert.channel, advert.mask}
        are_its_own = len(keys - {advert.device}) == 2 and not keys & self._keys
        self._require(_ADVERTISE, are_its_own, "has a duplicate key, or a key of another device")
        self._require(_ADVERTISE, advert.is_genuine(self._context), "has no valid signature")
        self._adverts[advert.device] = advert
        self._keys |= keys | {advert.device}

    def neighbours(self, order: Sequence[bytes] | None = None) -> dict[bytes, list[Advert]]:
        """Returns, for each device in a circle, the adverts of its neighbours.

        Args:
          order: The devices in the order of an earlier server of this sum. None draws a random
            order.
        """
        self._close(_ADVERTISE, len(self._adverts), _SHARE)
        devices = list(self._adverts if order is None else order)
        self._circle = circle(devices, self._settings.degree, is_ordered=order is not None)
        return {x: [self._adverts[y] for y in near] for x, near in self._circle.items()}

    def share(self, shares: Shares) -> None:
        """Step 2: accepts the envelopes of a device."""
        sender, envelopes = shares.sender, shares.envelopes
        self._require(_SHARE, sender in self._circle, "is not a part of this sum")
        self._require(_SHARE, sender not in self._shares, "shared before")
        near = sorted(self._circle[sender])
        fits = [x.recipient for x in envelopes] == near and {x.sender for x in envelopes} == {
            sender
        }
        self._require(_SHARE, fits, "needs one envelope for each neighbour, sorted")
        lengths = {(len(x.sealed), len(x.own), len(x.pair)) for x in envelopes}
        fits = lengths == {(SEALED_BYTES, DIGEST_BYTES, DIGEST_BYTES)}
        self._require(_SHARE, fits, "needs envelopes of the same length")
        self._shares[sender] = shares

    def envelopes(self) -> dict[bytes, list[Envelope]]:
        """Returns the envelopes for each device that shared, from neighbours that shared."""
        self._close(_SHARE, len(self._shares), _REPORT)
        return {x: [self._envelope(y, x) for y in self._pairs(x)] for x in self._shares}

    def report(self, report: Report) -> None:
        """Step 3: adds the vector to the sum. The vector is not kept."""
        device, masked = report.device, report.masked
        self._require(_REPORT, device in self._shares, "has not shared")
        self._require(_REPORT, device not in self.reported, "reported before")
        fits = masked.shape == self._total.shape and masked.dtype == self._total.dtype
        self._require(_REPORT, fits, f"needs {self._settings.size} integers")
        fits = report.included.keys() == set(self._pairs(device)) and all(
            is_included(signature, self._context, self._adverts[device], self._adverts[other])
            for other, signature in report.included.items()
        )
        self._require(_REPORT, fits, "needs a signature for each pair in its vector")
        self._total += masked
        self._included[device] = report.included
        self.reported.add(device)

    def questions(self) -> dict[bytes, Question]:
        """Returns, for each device that reported, which of its pairs reported."""
        self._close(_REPORT, len(self.reported), _UNMASK)
        questions = {}
        for device in self.reported:
            pairs = set(self._pairs(device))
            reported = {x: self._included[x][device] for x in sorted(pairs & self.reported)}
            questions[device] = Question(
                reported=reported, dropped=frozenset(pairs - self.reported)
            )
        return questions

    def confirm(self, confirmations: Confirmations) -> None:
        """Step 4: accepts the confirmations of a device."""
        device, signatures = confirmations.device, confirmations.signatures
        self._require(_UNMASK, device in self.reported, "has not reported")
        fits = signatures.keys() == set(self._left(device)) and all(
            is_confirmation(signature, self._context, self._adverts[device], self._adverts[other])
            for other, signature in signatures.items()
        )
        self._require(_UNMASK, fits, "needs a signature for each pair that reported")
        self._confirmed[device] = signatures

    def confirmations(self, device: bytes) -> dict[bytes, bytes] | None:
        """Returns signatures that a device counts as reported, by signer; None if too few."""
        signatures = {
            other: self._confirmed[other][device]
            for other in self._left(device)
            if other in self._confirmed
        }
        return signatures if len(signatures) >= self._settings.threshold else None

    def unmask(self, reveal: Reveal) -> None:
        """Step 5: accepts the shares of a device, if each share is the one that its owner dealt."""
        self._require(_UNMASK, reveal.device in self.reported, "has not reported")
        pairs = self._pairs(reveal.device)
        for owner, share in reveal.shares.items():
            self._require(
                _UNMASK, owner in pairs, "reveals a share of a device that is not its neighbour"
            )
            envelope = self._envelope(owner, reveal.device)
            kind, told = (OWN, envelope.own) if owner in self.reported else (PAIR, envelope.pair)
            is_it = digest(self._context, kind, share) == told
            self._require(_UNMASK, is_it, "reveals a share that differs from the one it received")
        self._revealed[reveal.device] = reveal.shares

    @property
    def false_dealers(self) -> set[bytes]:
        """Devices that lack shares which pairs that revealed others left out.

        To frame a dealer takes as many colluding neighbours as to block the sum by silence: degree
        - threshold + 1, less the neighbours that dropped out.
        """
        told = [x for x, shares in self._revealed.items() if shares]
        answers_due = collections.Counter(y for x in told for y in self._pairs(x))
        given, threshold = self._num_revealed_shares(), self._settings.threshold
        return {
            dealer for dealer in answers_due if given[dealer] < threshold <= answers_due[dealer]
        }

    @property
    def can_sum(self) -> bool:
        """Whether there are enough shares of every remaining mask."""
        given = self._num_revealed_shares()
        needed = [x for x in self._shares if x in self.reported or self._left(x)]
        return all(given[x] >= self._settings.threshold for x in needed)

    def sum(self) -> np.ndarray:
        """Returns the sum of the vectors of `reported`, modulo 2^bits: [size] unsigned.

        Raises:
          SecureSumError: If there are too few shares of some device, or if a device shared
            something else than its secret; without its masks there is no sum.
        """
        self._require(_UNMASK, True, "")
        total, settings = self._total.copy(), self._settings
        for device in self.reported:
            secret = self._secret(device)
            if digest(self._context, OWN, secret) != self._shares[device].own_secret:
                raise _blamed(device, "shared a secret that does not match its mask")
            total -= own_stream(settings, secret)
        for device in self._shares.keys() - self.reported:
            neighbours = self._left(device)
            if not neighbours:
                continue
            key = X25519PrivateKey.from_private_bytes(self._secret(device))
            if key.public_key().public_bytes_raw() != self._adverts[device].mask:
                raise _blamed(device, "shared a key that differs from the advertised one")
            for other in neighbours:  # removes the mask that `other` added
                add_pair_stream(total, settings, key, self._adverts[other].mask, other > device)
        return total

    def _num_revealed_shares(self) -> collections.Counter[bytes]:
        """Counts the revealed shares of each device."""
        return collections.Counter(x for shares in self._revealed.values() for x in shares)

    def _secret(self, device: bytes) -> bytes:
        """Returns the secret of a device, from the shares that its neighbours revealed."""
        points = {x: point for point, x in enumerate(sorted(self._circle[device]), 1)}
        shares = {
            points[x]: self._revealed[x][device]
            for x in self._pairs(device)
            if device in self._revealed.get(x, ())
        }
        if len(shares) < self._settings.threshold:
            raise SecureSumError(
                f"Device {device.hex()[:16]} cannot be unmasked: {len(shares)} of "
                f"{self._settings.threshold} shares are available."
            )
        secret = shamir.join(shares)
        if secret is None:
            raise _blamed(device, "sent shares that do not form a secret")
        return secret

    def _pairs(self, device: bytes) -> list[bytes]:
        return [x for x in self._circle[device] if x in self._shares]

    def _left(self, device: bytes) -> list[bytes]:
        """Returns the pairs of `device` that reported.

        Their vectors have the masks they share with it.
        """
        return [x for x in self._pairs(device) if x in self.reported]

    def _envelope(self, sender: bytes, recipient: bytes) -> Envelope:
        """Returns the envelope that a device sent to a neighbour."""
        index = sorted(self._circle[sender]).index(recipient)
        return self._shares[sender].envelopes[index]

    def _close(self, step: str, count: int, following: str) -> None:
        """Ends a step with `count` devices, and begins the `following` one."""
        self._require(step, True, "")
        if count < self._min_devices:
            raise SecureSumError(
                f"A secure sum needs {self._min_devices} devices, got {count}: {step}."
            )
        self._step = following

    def _require(self, step: str, rule: bool, problem: str) -> None:
        """Raises `SecureSumError` unless the sum is at a step, and a device follows its rule."""
        if self._step != step:
            raise SecureSumError(f"A secure sum is at step {self._step!r}, not {step!r}.")
        if not rule:
            raise SecureSumError(f"Step {step!r} of a secure sum: a device {problem}.")


def _blamed(device: bytes, problem: str) -> SecureSumError:
    """Returns the error of a dealer whose revealed shares all match the digests that it sent."""
    error = SecureSumError(f"Device {device.hex()[:16]} {problem}.")
    error.device = device
    return error
