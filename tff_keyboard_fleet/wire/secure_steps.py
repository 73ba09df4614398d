"""The steps of a secure sum on the wire: `POST /v1/rounds/ROUND/secure/STEP`.

    advertise  Advertise -> Next: `neighbours`
    share      Share     -> Next: `envelopes` for this device
    (the masked vector is the round's upload, with the codec `messages.MASKED`; its header has
     the signatures `included`)
    confirm    Confirm without signatures -> Next: `reported` and `dropped`;
               with them -> Next: `confirmations` of this device, at least `threshold`
    unmask     Unmask    -> an empty Next

Until the server can answer a step, the answer has only `retry_after_s`, and the device posts the
same bytes again. An empty Next means that the round is over. Bytes are in hex. `secure_sums/`
explains the steps.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from tff_keyboard_fleet.wire.plan import SecureSums
from tff_keyboard_fleet.wire.secure_sums import messages as sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advertise:
    """The keys of the device that signs the request, for one sum."""

    assignment: str
    channel: str
    mask: str
    signature: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Neighbour:
    """The keys of a neighbouring device."""

    device: str
    channel: str
    mask: str
    signature: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Envelope:
    """Sealed shares.

    In `Share`, they go from the posting device to `other`. In `Next`, they come from `other`.
    """

    other: str
    sealed: str
    own: str
    pair: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """Shares of both secrets of a device: one envelope for each neighbour, sorted."""

    assignment: str
    own_secret: str
    envelopes: list[Envelope]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Confirm:
    """Signatures for each pair that reported, by that pair. None asks which pairs reported."""

    assignment: str
    signatures: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unmask:
    """The shares that a device reveals, by their owner."""

    assignment: str
    shares: dict[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Next:
    """The input of the next step, or seconds to wait for it. If empty, the device is done.

    Attributes:
      retry_after_s: Seconds to wait.
      neighbours: Keys of the neighbours.
      envelopes: Envelopes for this device.
      reported: Signatures `included` for this device, by the pair that signed.
      dropped: Pairs that did not report.
      confirmations: Signatures about this device, by the pair that signed.
    """

    retry_after_s: int | None = None
    neighbours: list[Neighbour] | None = None
    envelopes: list[Envelope] | None = None
    reported: dict[str, str] | None = None
    dropped: list[str] | None = None
    confirmations: dict[str, str] | None = None


Step = Advertise | Share | Confirm | Unmask
STEPS: dict[str, type[Step]] = {
    "advertise": Advertise,
    "share": Share,
    "confirm": Confirm,
    "unmask": Unmask,
}


def label(secure_sum: str, plan: str, model: str) -> bytes:
    """Returns the label of a sum, from the task's label, the plan and the weights.

    Devices that follow different plans or start from different weights are therefore in different
    sums. Otherwise a server could make all devices but one send zeros, and the sum would be the
    vector of that one device: Pasquini et al. 2022, https://arxiv.org/abs/2111.07380.

    Args:
      secure_sum: Label of the attempt at a round.
      plan: SHA-256 of the plan in hex, which the device has checked.
      model: SHA-256 of the weights in hex, which the device has checked.
    """
    return f"{secure_sum} {plan} {model}".encode()


def settings(plan: SecureSums, size: int, label: bytes = b"") -> sums.Settings:
    """Returns the settings of a plan's sums of `size` integers. Each sum has its own `label`.

    Raises:
      ValueError: If no sum can have these numbers.
    """
    return sums.Settings(
        label=label,
        size=size,
        bits=plan.bits,
        degree=plan.degree,
        threshold=plan.threshold,
    )


def advertise(assignment: str, advert: sums.Advert) -> Advertise:
    """Encodes the first step of a device."""
    keys = {name: getattr(advert, name).hex() for name in ("channel", "mask", "signature")}
    return Advertise(assignment=assignment, **keys)


def advert(device: bytes, message: Advertise | Neighbour) -> sums.Advert:
    """Decodes the advert of a device.

    Raises:
      ValueError: If it is not hex.
    """
    keys = {
        name: bytes.fromhex(getattr(message, name)) for name in ("channel", "mask", "signature")
    }
    return sums.Advert(device=device, **keys)


def neighbours(adverts: Sequence[sums.Advert]) -> Next:
    """Encodes the answer to `Advertise`."""
    fields = [{name: value.hex() for name, value in vars(each).items()} for each in adverts]
    return Next(neighbours=[Neighbour(**each) for each in fields])


def share(assignment: str, shares: sums.Shares) -> Share:
    """Encodes the second step of a device."""
    envelopes = [_encode_envelope(each, each.recipient) for each in shares.envelopes]
    return Share(assignment=assignment, own_secret=shares.own_secret.hex(), envelopes=envelopes)


def shares(device: bytes, message: Share) -> sums.Shares:
    """Decodes the shares of a device.

    Raises:
      ValueError: If they are not hex.
    """
    envelopes = tuple(
        _decode_envelope(each, device, bytes.fromhex(each.other)) for each in message.envelopes
    )
    return sums.Shares(
        sender=device, own_secret=bytes.fromhex(message.own_secret), envelopes=envelopes
    )


def envelopes(answer: Sequence[sums.Envelope]) -> Next:
    """Encodes the answer to `Share`."""
    return Next(envelopes=[_encode_envelope(each, each.sender) for each in answer])


def received(device: bytes, answer: Sequence[Envelope]) -> list[sums.Envelope]:
    """Decodes the envelopes for a device.

    Raises:
      ValueError: If they are not hex.
    """
    return [_decode_envelope(each, bytes.fromhex(each.other), device) for each in answer]


def question(asked_pairs: sums.Question) -> Next:
    """Encodes the answer to `Confirm` without signatures."""
    return Next(
        reported=in_hex(asked_pairs.reported), dropped=sorted(x.hex() for x in asked_pairs.dropped)
    )


def asked(answer: Next) -> sums.Question:
    """Decodes which pairs reported.

    Raises:
      ValueError: If the answer is not hex.
    """
    dropped = frozenset(map(bytes.fromhex, answer.dropped or ()))
    return sums.Question(reported=from_hex(answer.reported), dropped=dropped)


def confirm(assignment: str, confirmations: sums.Confirmations) -> Confirm:
    """Encodes the fourth step of a device."""
    return Confirm(assignment=assignment, signatures=in_hex(confirmations.signatures))


def confirmations(device: bytes, message: Confirm) -> sums.Confirmations:
    """Decodes the confirmations of a device.

    Raises:
      ValueError: If the message is not hex.
    """
    return sums.Confirmations(device=device, signatures=from_hex(message.signatures))


def confirmed(signatures: Mapping[bytes, bytes]) -> Next:
    """Encodes the answer to `Confirm` with signatures."""
    return Next(confirmations=in_hex(signatures))


def unmask(assignment: str, reveal: sums.Reveal) -> Unmask:
    """Encodes the last step of a device."""
    return Unmask(assignment=assignment, shares=in_hex(reveal.shares))


def reveal(device: bytes, message: Unmask) -> sums.Reveal:
    """Decodes the shares that a device reveals.

    Raises:
      ValueError: If they are not hex.
    """
    return sums.Reveal(device=device, shares=from_hex(message.shares))


def in_hex(values: Mapping[bytes, bytes]) -> dict[str, str]:
    """Encodes shares or signatures by device."""
    return {device.hex(): value.hex() for device, value in values.items()}


def from_hex(values: Mapping[str, str] | None) -> dict[bytes, bytes]:
    """Decodes shares or signatures by device.

    Raises:
      ValueError: If they are not hex.
    """
    return {bytes.fromhex(device): bytes.fromhex(value) for device, value in (values or {}).items()}


def _encode_envelope(each: sums.Envelope, other: bytes) -> Envelope:
    """Returns an envelope as JSON values, with the device at its other end."""
    return Envelope(
        other=other.hex(), sealed=each.sealed.hex(), own=each.own.hex(), pair=each.pair.hex()
    )


def _decode_envelope(each: Envelope, sender: bytes, recipient: bytes) -> sums.Envelope:
    """Returns an envelope from its JSON values."""
    sealed, own_digest, pair = map(bytes.fromhex, (each.sealed, each.own, each.pair))
    return sums.Envelope(
        sender=sender, recipient=recipient, sealed=sealed, own=own_digest, pair=pair
    )
