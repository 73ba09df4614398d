"""A lying server, and the secrets that it learns from devices that follow the protocol.

`World.play` does what a `Lies` says: it gives each device its own neighbours, envelopes and lists,
with the signatures that it has, and collects every share that it gets. `Learned` then says which
sums of vectors the server knows. The devices are those of `secure_sums.device`;
colluding ones tell the server all that they know and sign what it likes.

`on_paper` replaces their cryptography by tables: a signature, an envelope or a share is then worth
what it would be worth, and a search over many servers is fast.
"""

import collections
import dataclasses
import itertools
import secrets

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from tff_keyboard_fleet.wire.secure_sums import device as sum_devices
from tff_keyboard_fleet.wire.secure_sums import masks, messages, shamir
from tff_keyboard_fleet.wire.secure_sums.device import (
    SEALED_BYTES,
    Device,
    add_pair_stream,
    own_stream,
)
from tff_keyboard_fleet.wire.secure_sums.errors import SecureSumError
from tff_keyboard_fleet.wire.secure_sums.messages import (
    Confirmations,
    Envelope,
    Question,
    sign_confirmation,
    sign_included,
)


@dataclasses.dataclass
class Lies:
    """The messages of a server to each device. Devices are numbers; the honest ones come first.

    Attributes:
      near: The neighbours of each honest device.
      pairs: Neighbours whose envelopes a device gets.
      reported: Pairs that a device is told have reported; the other ones, that they dropped out.
      silent: By step, devices that the server does not ask, or that are gone.
    """

    near: dict[int, list[int]]
    pairs: dict[int, set[int]]
    reported: dict[int, set[int]]
    silent: dict[str, set[int]] = dataclasses.field(default_factory=dict)


class World:
    """Devices in reach of the server.

    Args:
      honest, colluding: Numbers of devices.
      restarted: The last honest devices are, so many, the first ones begun anew under the same
        label: the server replays what it has of the one for the other.
      make: The class of honest devices.
      is_known: Whether an honest device takes a key for that of a real device.
    """

    def __init__(
        self, settings, honest, colluding=0, *, restarted=0, make=Device, is_known=None, seed=0
    ):
        self.settings, self.honest = settings, range(honest)
        self.colluding = range(honest, honest + colluding)
        keys = [sum_devices.Ed25519PrivateKey.generate() for _ in range(honest + colluding)]
        first = honest - restarted
        self.siblings = {first + each: each for each in range(restarted)}
        for new, old in self.siblings.items():
            keys[new] = keys[old]
        self.siblings |= {old: new for new, old in self.siblings.items()}
        self.keys = keys
        real = {key.public_key().public_bytes_raw() for key in keys[:honest]}
        known = {} if is_known is None else {"is_known": is_known(real)}
        self.devices = [
            make(settings, key, **known) if number < honest else Device(settings, key)
            for number, key in enumerate(keys)
        ]
        rng = np.random.default_rng(seed)
        self.vectors = rng.integers(-1000, 1000, [honest, settings.size])
        self.refused = collections.Counter()

    def play(self, lies):
        """Plays all steps of one sum.

        The server continues with the devices that did not reject its messages.
        """
        learned = Learned(self, lies)
        envelopes, included, confirmed = {}, {}, {}
        for step in ("share", "report", "confirm", "unmask"):
            for each in self.honest:
                if each not in lies.near or each in lies.silent.get(step, ()):
                    continue
                try:
                    if step == "share":
                        self._share(each, lies, envelopes, learned)
                    elif step == "report":
                        self._report(each, lies, envelopes, included, learned)
                    elif step == "confirm":
                        self._confirm(each, lies, included, confirmed)
                    else:
                        self._unmask(each, lies, confirmed, learned)
                except SecureSumError:
                    self.refused[step] += 1
        return learned

    def _share(self, each, lies, envelopes, learned):
        number_of_name = {self.devices[other].name: other for other in lies.near[each]}
        shares = self.devices[each].share([self.devices[x].advert for x in lies.near[each]])
        for envelope in shares.envelopes:
            other = number_of_name[envelope.recipient]
            envelopes[each, other] = envelope
            if other in self.colluding:
                colluder = self.devices[other]
                colluder._neighbours[envelope.sender] = self.devices[each].advert
                colluder._received[envelope.sender] = envelope
                for is_own in (True, False):
                    share = colluder._opened(envelope.sender, is_own)
                    learned.shares[each, is_own][other] = share

    def _report(self, each, lies, envelopes, included, learned):
        actual = []
        for other in lies.pairs[each]:
            if other in self.colluding:
                actual.append(
                    Envelope(
                        sender=self.devices[other].name,
                        recipient=self.devices[each].name,
                        sealed=bytes(SEALED_BYTES),
                        own=b"",
                        pair=b"",
                    )
                )
            elif (other, each) in envelopes:
                actual.append(envelopes[other, each])
        report = self.devices[each].report(actual, self.vectors[each])
        learned.masked[each] = report.masked
        numbers = {self.devices[other].name: other for other in lies.near[each]}
        learned.pairs[each] = {numbers[x] for x in report.included}
        for name, signature in report.included.items():
            included[each, numbers[name]] = signature

    def _confirm(self, each, lies, included, confirmed):
        device = self.devices[each]
        numbers = {self.devices[other].name: other for other in lies.near[each]}
        pairs = {numbers[x] for x in device._received}
        reported = lies.reported[each] & pairs
        questions = {
            self.devices[x].name: self._signature(included, x, each, sign_included)
            for x in reported
        }
        dropped = frozenset(self.devices[x].name for x in pairs - reported)
        answer = device.confirm(Question(reported=questions, dropped=dropped))
        assert isinstance(answer, Confirmations)
        for name, signature in answer.signatures.items():
            confirmed[each, numbers[name]] = signature

    def _unmask(self, each, lies, confirmed, learned):
        device = self.devices[each]
        actual = {
            self.devices[x].name: self._signature(confirmed, x, each, sign_confirmation)
            for x in lies.near[each]
        }
        numbers = {self.devices[other].name: other for other in lies.near[each]}
        for name, share in device.unmask(actual).shares.items():
            is_own = name in device._reported
            learned.shares[numbers[name], is_own][each] = share

    def _signature(self, found, signer, other, sign):
        """Returns the signature that the server needs, or the best one that it has instead."""
        if signer in self.colluding:
            adverts = (self.devices[x].advert for x in (signer, other))
            return sign(self.keys[signer], self.settings.context, *adverts)
        for pair in (
            (signer, other),
            (self.siblings.get(signer), other),
            (signer, self.siblings.get(other)),
        ):
            if pair in found:
                return found[pair]
        return b""


class Learned:
    """The knowledge of the server after a play.

    Attributes:
      shares: By `(owner, whether of its own secret)`: the shares, by who had them.
      masked: Masked vectors by device.
      pairs: The devices whose pairwise masks are in them.
    """

    def __init__(self, world, lies):
        self._world, self._lies = world, lies
        self.shares = collections.defaultdict(dict)
        self.masked, self.pairs = {}, {}

    def is_opened(self, device, is_own):
        return len(self.shares[device, is_own]) >= self._world.settings.threshold

    def sums(self):
        """The sets of honest devices the sums of whose vectors the server knows.

        Masks that it does not know and that cancel in a sum tie devices together; those that
        do not cancel hide a device, and all that are tied to it.
        """
        world = self._world
        secret = {x for x in world.honest if not self.is_opened(x, False)}
        hidden = {x for x in self.masked if not self.is_opened(x, True)}
        tied = {x: set() for x in self.masked}
        for each in self.masked.keys() & secret:
            for other in self.pairs[each] & secret:
                if each in self.pairs.get(other, ()):
                    tied[each].add(other)
                else:
                    hidden.add(each)
        actual, left = [], set(tied)
        while left:
            group, new = set(), {left.pop()}
            while new:
                group |= new
                new = set().union(*(tied[x] for x in new)) - group
            left -= group
            if not group & hidden:
                actual.append(group)
        return actual

    def secret(self, owner, is_own):
        """Returns a secret of 32 bytes recovered from shares, or None."""
        if not self.is_opened(owner, is_own):
            return None
        names = sorted(self._world.devices[x].name for x in self._lies.near[owner])
        points = {name: point for point, name in enumerate(names, 1)}
        shares = self.shares[owner, is_own].items()
        return shamir.join({points[self._world.devices[x].name]: share for x, share in shares})

    def vector(self, device):
        """Returns the vector of one device without its masks, or None if a mask is not known."""
        world = self._world
        settings, own_share = world.settings, self.secret(device, True)
        if device not in self.masked or own_share is None:
            return None
        vector = self.masked[device] - own_stream(settings, own_share)
        name, mine = world.devices[device].name, self.secret(device, False)
        for other in self.pairs[device]:
            advert, its = world.devices[other].advert, self.secret(other, False)
            if mine is not None:
                key, public = mine, advert.mask
            elif its is not None:
                key, public = its, world.devices[device].advert.mask
            else:
                return None
            private = X25519PrivateKey.from_private_bytes(key)
            add_pair_stream(vector, settings, private, public, name > advert.device)
        return vector


class Trusting(Device):
    """A device of the protocol without the step `confirm`, which trusts the server's lists."""

    def confirm(self, asked):
        self._reported = frozenset(asked.reported)
        return Confirmations(device=self.name, signatures={})

    def unmask(self, confirmations):
        if self._reported is None:
            raise SecureSumError("It was not asked.")
        opened = {x: self._opened(x, x in self._reported) for x in self._received}
        return messages.Reveal(device=self.name, shares=opened)


# --- lies ---------------------------------------------------------------------------------------


def circle_of(numbers, degree, rng):
    order = list(rng.permutation(numbers))
    steps = [step for step in range(-degree // 2, degree // 2 + 1) if step]
    return {
        int(each): [int(order[(position + step) % len(order)]) for step in steps]
        for position, each in enumerate(order)
    }


def truth(world, rng):
    """Returns the messages of an honest server. A device and its restart are not both there."""
    numbers = [x for x in (*world.honest, *world.colluding) if world.siblings.get(x, x + 1) > x]
    near = circle_of(numbers, world.settings.degree, rng)
    near = {x: near[x] for x in world.honest if x in near}
    pairs = {x: set(others) for x, others in near.items()}
    return Lies(near, pairs, {x: set(others) for x, others in pairs.items()})


def drop_claims(world, rng):
    """Each device gets its own list: neighbours of a target hear that it reported, and of each
    device that shares a mask with it, `threshold` neighbours hear that it dropped out."""
    lies, threshold = truth(world, rng), world.settings.threshold
    target = int(rng.choice(list(lies.near)))
    honest_neighbours = set(sorted(lies.near[target])[:threshold]) - set(world.colluding)
    for other in set(lies.near[target]) - honest_neighbours - set(world.colluding):
        lies.pairs[target].discard(other)
        lies.pairs[other].discard(target)
    room = {x: len(lies.pairs[x]) - threshold for x in lies.near}
    claims = collections.defaultdict(set)

    def augment(owner, seen):
        for each in lies.pairs[owner] & lies.near.keys():
            if each in seen or owner in claims[each]:
                continue
            seen.add(each)
            if len(claims[each]) < room[each]:
                claims[each].add(owner)
                return True
            for other in list(claims[each]):
                if augment(other, seen):
                    claims[each].discard(other)
                    claims[each].add(owner)
                    return True
        return False

    for owner in honest_neighbours:
        for _ in range(threshold):
            augment(owner, set())
    lies.reported = {x: lies.pairs[x] - claims[x] for x in lies.near}
    return lies


def two_groups(world, rng):
    """One group hears that the target reported, another that it dropped out.

    Each group is as small as its devices permit, with all colluding devices as neighbours; the
    target is in the first.
    """
    settings, colluding = world.settings, list(world.colluding)[: world.settings.degree]
    size = max(settings.threshold - len(colluding), 0)
    honest = [int(x) for x in rng.permutation(world.honest) if world.siblings.get(x, x + 1) > x]
    target, *rest = honest
    first, second = [target, *rest[:size]], rest[size : 2 * size + 1]
    room = settings.degree - size - len(colluding)
    near = {target: _filled([*first[1:], *colluding, *second[:size][:room]], target, world, rest)}
    for each in first[1:]:
        near[each] = _filled([x for x in first if x != each] + colluding, each, world, rest)
    for each in second:
        group = [target, *(x for x in second if x != each), *colluding]
        near[each] = _filled(group, each, world, rest)
    groups = [{*first, *colluding}, {*second, *colluding}]
    reported = {x: groups[x in second] & set(near[x]) for x in near}
    pairs = {x: reported[x] | {target} - {x} for x in near}
    return Lies(near, pairs, reported)


def _filled(numbers, each, world, rest):
    more = (x for x in rest if x not in numbers and x != each)
    return [*numbers, *itertools.islice(more, world.settings.degree - len(numbers))]


def few_ties(world, rng):
    """A group whose devices share masks with each other and with devices whose keys are opened.

    The rest of the shares of their own secrets comes from devices that are told that they reported,
    although they share no mask with these: the reason for the signatures `included`. If devices did
    not ask for them, the group could have 2 t - d - c + 1 devices instead of t - c + 1.
    """
    degree, threshold = world.settings.degree, world.settings.threshold
    colluding = list(world.colluding)
    ties, size = 2 * threshold - degree - len(colluding), threshold - len(colluding) + 1
    rest = [int(x) for x in rng.permutation(world.honest) if world.siblings.get(x, x + 1) > x]
    if len(rest) < (ties + 1) * (1 + degree - threshold + 2 * size) or degree < threshold + 2:
        return truth(world, rng)
    others, lies = list(rest), Lies({}, {}, {})

    def take(count):
        taken, others[:] = others[:count], others[count:]
        return taken

    def tell(each, near, reported, dropped=()):
        lies.near[each] = _filled([*near, *colluding], each, world, rest)
        lies.reported[each] = {*reported, *colluding}
        lies.pairs[each] = lies.reported[each] | set(dropped)

    group = take(ties + 1)
    for each in group:
        opened, told, openers = take(degree - threshold), take(size), take(size)
        mates = [x for x in group if x != each]
        tell(each, [*mates, *opened, *told[: degree - threshold]], [*mates, *opened])
        for other in opened:  # it counts `each` as reported; `openers` hear that it dropped out
            tell(other, [each, *openers], [each, *openers])
        for other in told:
            mates = [x for x in told if x != other]
            heard = [each] if other in lies.near[each] else []
            tell(other, mates + heard, mates + heard)
        for other in openers:
            mates = [x for x in openers if x != other]
            tell(other, mates + opened, mates, opened)
    return lies


def many_groups(world, rng):
    """Each device hears that its own group reported and the others dropped out; of some other
    devices it hears, or is given, something else by chance."""
    settings, colluding = world.settings, list(world.colluding)
    least = max(settings.threshold - len(colluding) + 1, 2)
    honest = [int(x) for x in rng.permutation(world.honest) if world.siblings.get(x, x + 1) > x]
    lies, left = Lies({}, {}, {}), list(honest)
    told, chance = rng.choice([0, 0.1, 0.5]), rng.choice([0, 0, 0.01, 0.1])
    while left:
        size = int(rng.integers(least - 1, least + 3))
        group, left = left[:size], left[size:]
        others = [int(x) for x in rng.permutation(honest)]
        for each in group:
            near = [x for x in group if x != each][: settings.degree - len(colluding)]
            lies.near[each] = _filled([*near, *colluding], each, world, others)
            lies.reported[each] = {
                x
                for x in lies.near[each]
                if (x in near or x in colluding) != (rng.random() < chance)
            }
            is_told = rng.random() < told  # of the devices of other groups, as dropped out
            lies.pairs[each] = set(lies.near[each]) if is_told else set(lies.reported[each])
    return lies


def at_random(world, rng):
    """Lets devices disappear at each step, and tells some of the others lies about devices."""
    settings = world.settings
    lies = truth(world, rng)
    for step in ("share", "report", "confirm", "unmask"):
        gone = rng.random(len(world.devices)) < rng.choice([0, 0.02, 0.1])
        lies.silent[step] = set(map(int, np.flatnonzero(gone))) - set(world.colluding)
    chance = rng.choice([0, 0.05, 0.5])
    for each in lies.near:
        lies.pairs[each] -= lies.silent["share"]
        lies.reported[each] = lies.pairs[each] - lies.silent["report"]
        if rng.random() < chance:
            others = [int(x) for x in rng.permutation(list(lies.pairs[each]))]
            lies.pairs[each] = set(others[: int(rng.integers(settings.threshold, 99))])
            lies.reported[each] = set(others[: int(rng.integers(settings.threshold, 99))])
    return lies


def restarts(world, rng):
    """Returns another server's lies, but some devices see the restart of a device instead of it."""
    lies = LIES[int(rng.integers(len(LIES) - 1))](world, rng)
    for old in list(lies.near):
        if (new := world.siblings.get(old)) is not None:
            for found in (lies.near, lies.pairs, lies.reported):
                found[new] = type(found[old])(found[old])
    for each in list(lies.near):
        swapped = {x: world.siblings[x] for x in lies.near[each] if x in world.siblings}
        kept = {x for x in swapped if rng.random() < 0.7}
        for found in (lies.near, lies.pairs, lies.reported):
            kind = type(found[each])
            found[each] = kind(x if x in kept else swapped.get(x, x) for x in found[each])
    return lies


LIES = (drop_claims, two_groups, few_ties, many_groups, at_random, restarts)


# --- cryptography on paper ----------------------------------------------------------------------


class _Key:
    """A key of any kind, which is its own name; its private half cannot be guessed."""

    _count = itertools.count()
    _signed = {}  # noqa: RUF012

    def __init__(self):
        self._private = b"private %24d" % next(self._count)
        self._public = b"public  " + self._private[8:]

    generate = classmethod(lambda cls: cls())

    def public_key(self):
        return self

    def public_bytes_raw(self):
        return self._public

    def private_bytes_raw(self):
        return self._private

    def sign(self, message):
        signature = b"signature %54d" % len(self._signed)
        return self._signed.setdefault((self._public, message), signature)


class _PublicKey:
    def __init__(self, public):
        self._public = public

    from_public_bytes = classmethod(lambda cls, public: cls(public))

    def verify(self, signature, message):
        if _Key._signed.get((self._public, message)) != signature:
            raise InvalidSignature


class _Cipher:
    _sealed = {}  # noqa: RUF012

    def __init__(self, key):
        self._key = key

    def encrypt(self, nonce, data, between):
        sealed = b"sealed %153d" % len(self._sealed)
        self._sealed[sealed] = self._key, nonce, between, data
        return sealed

    def decrypt(self, nonce, sealed, between):
        *opening, data = self._sealed.get(sealed, (None,))
        if opening != [self._key, nonce, between]:
            raise InvalidTag
        return data


def on_paper(patch):
    """Replaces cryptography by tables. The devices are otherwise unchanged."""
    _Key._signed.clear()
    _Cipher._sealed.clear()
    patch.setattr(sum_devices, "Ed25519PrivateKey", _Key)
    patch.setattr(sum_devices, "X25519PrivateKey", _Key)
    patch.setattr(sum_devices, "AESGCM", _Cipher)
    patch.setattr(messages, "Ed25519PublicKey", _PublicKey)
    patch.setattr(messages, "is_key", lambda public: True)
    patch.setattr(
        masks, "shared_key", lambda private, public, context: (
            context, *sorted([private.public_bytes_raw(), public])
        ),
    )  # fmt: skip
    patch.setattr(
        shamir, "split", lambda secret, *, threshold, points: [
            secret + b"%34d" % point for point in points
        ],
    )  # fmt: skip
    patch.setattr(sum_devices, "own_stream", lambda settings, secret: 0)
    patch.setattr(sum_devices, "add_pair_stream", lambda *arguments: None)
    patch.setattr(secrets, "token_bytes", lambda size: bytes(size))
