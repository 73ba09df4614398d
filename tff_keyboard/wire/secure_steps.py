"""The steps of a secure sum on the wire: `POST /v1/rounds/ROUND/secure/STEP`.

    advertise  Advertise -> Next: `neighbours`
    share      Share     -> Next: `envelopes` for this device
    (the masked vector is the round's upload, with the codec `messages.MASKED`)
    unmask     Unmask without shares -> Next: `reported` and `dropped`; with them -> an empty Next

Until a step is closed for all, its answer is `retry_after_s` alone: the same bytes are posted
again, and have the same answer. Bytes are hex. What the steps mean: `secure_sums/`.
"""

import dataclasses
from collections.abc import Sequence

from tff_keyboard.wire.plan import SecureSums
from tff_keyboard.wire.secure_sums import messages as sums


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advertise:
    """The keys of the device that signs the request, for one sum."""

    assignment: str
    channel: str
    mask: str
    signature: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Neighbour:
    """The keys of another device."""

    device: str
    channel: str
    mask: str
    signature: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Envelope:
    """Sealed shares: of the device that posts them to `other`, or of `other` to who gets them."""

    other: str
    sealed: str
    own: str
    pair: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Share:
    """Shares of both secrets of a device, an envelope a neighbour, sorted."""

    assignment: str
    own_secret: str
    envelopes: list[Envelope]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Unmask:
    """The shares that were asked for, by their owner; None: what is asked for?"""

    assignment: str
    shares: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Next:
    """What the next step needs, or seconds to wait for it; empty: the device is done."""

    retry_after_s: int | None = None
    neighbours: list[Neighbour] | None = None
    envelopes: list[Envelope] | None = None
    reported: list[str] | None = None
    dropped: list[str] | None = None


Step = Advertise | Share | Unmask
STEPS: dict[str, type[Step]] = {"advertise": Advertise, "share": Share, "unmask": Unmask}


def settings(plan: SecureSums, size: int, label: str = "") -> sums.Settings:
    """Those of a plan's sums of `size` integers; each sum has a label of its own.

    Raises `ValueError` if no sum can have such numbers.
    """
    return sums.Settings(
        label=label.encode(),
        size=size,
        bits=plan.bits,
        degree=plan.degree,
        threshold=plan.threshold,
    )


def advertise(assignment: str, advert: sums.Advert) -> Advertise:
    """The first step of a device."""
    keys = {name: getattr(advert, name).hex() for name in ("channel", "mask", "signature")}
    return Advertise(assignment=assignment, **keys)


def advert(device: bytes, message: Advertise | Neighbour) -> sums.Advert:
    """The advert of a device. Raises `ValueError` if it is no hex."""
    keys = {
        name: bytes.fromhex(getattr(message, name)) for name in ("channel", "mask", "signature")
    }
    return sums.Advert(device=device, **keys)


def neighbours(adverts: Sequence[sums.Advert]) -> Next:
    """The answer to `Advertise`."""
    found = [{name: value.hex() for name, value in vars(each).items()} for each in adverts]
    return Next(neighbours=[Neighbour(**each) for each in found])


def share(assignment: str, shares: sums.Shares) -> Share:
    """The second step of a device."""
    envelopes = [_written(each, each.recipient) for each in shares.envelopes]
    return Share(assignment=assignment, own_secret=shares.own_secret.hex(), envelopes=envelopes)


def shares(device: bytes, message: Share) -> sums.Shares:
    """What a device shared. Raises `ValueError` if it is no hex."""
    envelopes = tuple(_read(each, device, bytes.fromhex(each.other)) for each in message.envelopes)
    return sums.Shares(
        sender=device, own_secret=bytes.fromhex(message.own_secret), envelopes=envelopes
    )


def envelopes(found: Sequence[sums.Envelope]) -> Next:
    """The answer to `Share`."""
    return Next(envelopes=[_written(each, each.sender) for each in found])


def received(device: bytes, answer: Sequence[Envelope]) -> list[sums.Envelope]:
    """The envelopes for a device. Raises `ValueError` if they are no hex."""
    return [_read(each, bytes.fromhex(each.other), device) for each in answer]


def question(asked: sums.Unmask) -> Next:
    """The answer to `Unmask` without shares."""
    reported, dropped = (sorted(x.hex() for x in each) for each in (asked.reported, asked.dropped))
    return Next(reported=reported, dropped=dropped)


def asked(answer: Next) -> sums.Unmask:
    """What the server asks. Raises `ValueError` if it is no hex."""
    reported, dropped = (
        frozenset(map(bytes.fromhex, each or ())) for each in (answer.reported, answer.dropped)
    )
    return sums.Unmask(reported=reported, dropped=dropped)


def unmask(assignment: str, reveal: sums.Reveal) -> Unmask:
    """The last step of a device."""
    found = {owner.hex(): share.hex() for owner, share in reveal.shares.items()}
    return Unmask(assignment=assignment, shares=found)


def reveal(device: bytes, message: Unmask) -> sums.Reveal:
    """What a device reveals. Raises `ValueError` if it is no hex."""
    found = {bytes.fromhex(k): bytes.fromhex(v) for k, v in (message.shares or {}).items()}
    return sums.Reveal(device=device, shares=found)


def _written(each: sums.Envelope, other: bytes) -> Envelope:
    return Envelope(
        other=other.hex(), sealed=each.sealed.hex(), own=each.own.hex(), pair=each.pair.hex()
    )


def _read(each: Envelope, sender: bytes, recipient: bytes) -> sums.Envelope:
    sealed, own, pair = map(bytes.fromhex, (each.sealed, each.own, each.pair))
    return sums.Envelope(sender=sender, recipient=recipient, sealed=sealed, own=own, pair=pair)
