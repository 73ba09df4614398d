"""A secure sum of six devices, byte for byte: `golden/secure_sum.json`, for other devices.

One of them shares and is gone before it uploads. The file says how everything is made, too; a test
makes it so, of the secrets in the file alone.

python -m tff_keyboard_fleet.tests.wire.test_golden_secure_sum     # writes the file anew
"""

import contextlib
import dataclasses
import functools
import hashlib
import hmac
import itertools
import json
import math
import random
import secrets
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tff_keyboard_fleet.round_server.secure_rounds import SecureRoundStore
from tff_keyboard_fleet.tests.support.devices import key_of
from tff_keyboard_fleet.tests.support.masked import masked_upload, settle
from tff_keyboard_fleet.tests.wire import test_golden
from tff_keyboard_fleet.wire import messages, secure_steps
from tff_keyboard_fleet.wire.plan import Codec, SecureSums
from tff_keyboard_fleet.wire.secure_sums import device as sum_devices
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid

FILE = test_golden.FILE.with_name("secure_sum.json")
SUMS = SecureSums(clip_norm=1.0, step=2.0**-20, bits=32, degree=4, threshold=3)
PLAN = dataclasses.replace(test_golden.PLAN, codec=Codec(name=messages.MASKED), secure_sums=SUMS)
DELTAS = {
    "a": [0.5, 0.0, -0.25],
    "b": [0.25, -0.5, 0.0],
    "c": [-0.125, 0.25, 0.5],
    "d": [0.0, 0.0, 0.125],
    "e": [-0.5, 0.125, 0.25],
    "f": [1.0, 1.0, 1.0],  # is gone before it uploads
}
GONE = "f"
CONSTRUCTION = """\
|| joins bytes; quoted text is ASCII; hex is lower case. C, the context, is the decimal size, bits,
degree and threshold of the sum, then `secure_sum`, `plan` and `model` of the task, in UTF-8, with
a space between each two.
HKDF(key; info) is HKDF-SHA256 of RFC 5869 without salt, 32 bytes.
sign(purpose; devices) is the Ed25519 signature of "tff-keyboard secure sum 2 " || purpose || " " ||
for each device its public keys: Ed25519 || channel || mask || at the end C.
Each device draws two X25519 key pairs, channel and mask, and 32 bytes, its own secret.
advertise: signature = sign("advert"; this device).
agreed(private, public; info) = HKDF(X25519 of both; info || the lesser public key || the greater).
share: both secrets, the own one and the private mask key, are shared among the neighbours. The
share at x is the value at x of a polynomial modulo 2^521 - 1 of degree threshold - 1, whose value
at 0 is the secret, big-endian; the others are random. It is written in 66 bytes, big-endian. x is
1 for the neighbour with the least Ed25519 key, 2 for the next, ...
sealed = nonce of 12 bytes || AES-256-GCM(share of the own secret || share of the mask key), under
agreed(own channel, its channel; C || " channel"), with C || sender || recipient as associated data,
both Ed25519 keys.
digest(kind, value) = SHA-256 of the decimal length of C || " " || C || kind || " " || value.
own_secret = digest(" own", own secret); `own`, `pair` = digest(" own" or " pair", that share).
stream(key; info): AES-256 in counter mode from a block of zeros, under HKDF(key; info), as integers
of `bits`, little-endian.
upload: delta, clipped to `clip_norm`, / `step`, towards zero, modulo 2^bits; plus stream(own
secret; C || " own"); for each pair, a neighbour of whom an envelope came, plus stream(agreed(own
mask, its mask; C || " pair"); C || " pair") where the own Ed25519 key is the lesser, else minus.
`included` of the header: for each pair sign("included"; this device, the pair). Delete the text
that was trained on once a vector of it may have been sent, whatever the server answers.
confirm: without signatures, until `reported` comes: for each pair that reported its signature
sign("included"; the pair, this device). Refuse lists that do not name each pair once as reported or
dropped, fewer than `threshold` reported, a signature that is not that one, and other lists than
those answered before. Then with sign("confirm"; this device, the pair) for each that reported,
until `confirmations` come.
unmask: refuse fewer than `threshold` confirmations sign("confirm"; the pair, this device) of
different pairs. Of each pair that reported its share of the own secret, of each other one that of
the mask key, by the lists confirmed. Leave out what cannot be opened or has other digests.
Steps close when all have come, uploads also at the report goal; or at 1/2, 5/8 and 7/8 of the
deadline."""


def answer_of(recorder):
    return bytes.fromhex(recorder.exchanges[-1]["answer"]["hex"])


class Said:
    """A test device that speaks to a recorder."""

    def __init__(self, recorder, name):
        self.recorder, self.name, self.key, self.token = recorder, name, key_of(name), None

    def send(self, method, path, body):
        why = f"{self.name}: {path.rpartition('/')[2]}"
        self.recorder.say(why, method, path, body, device=self.name)
        return self.recorder.exchanges[-1]["answer"]["status"], answer_of(self.recorder)


class Drawn:
    """Randomness that is the same each time. A device's first draw is its secret."""

    def __init__(self):
        self.count = 0

    def token_bytes(self, size):
        self.count += 1
        return hashlib.sha256(b"drawn %d" % self.count).digest()[:size]

    def generate(self):
        return X25519PrivateKey.from_private_bytes(self.token_bytes(32))


def play(recorder):
    """Plays a sum without one device, with refusals on the way.

    Returns the secrets of the devices.
    """
    parts = {}
    for name, delta in DELTAS.items():
        recorder.check_in(f"{name}: a seat", name)
        task = messages.decode(messages.CheckinResponse, answer_of(recorder)).task
        parts[name] = masked_upload(Said(recorder, name), task, PLAN, delta)
    assert parts["a"].go_on() == 5
    keys = recorder.exchanges[-1]["request"]
    path, sent = keys["path"], bytes.fromhex(keys["hex"])
    other = messages.decode(secure_steps.Advertise, sent)
    other = messages.encode(dataclasses.replace(other, mask="0" * 64))
    recorder.say("a: other keys than before", "POST", path, other, device="a")
    seat, zeros = parts["a"].assignment, np.zeros(3)
    masked = {"weight": 1.0, "loss": 0.0, "codec": messages.MASKED}
    recorder.upload("a: an upload before it has shared", "a", seat, delta=zeros, **masked)
    others = [part for name, part in parts.items() if name != GONE]
    parts[GONE].go_on()
    assert not settle(others, tick=lambda: parts[GONE]._share or parts[GONE].go_on())
    recorder.replay("a: the same keys again, at the end", "POST", path, sent, keys["headers"])
    return {
        name: {
            "channel": part._device._channel.private_bytes_raw().hex(),
            "mask": part._device._mask.private_bytes_raw().hex(),
            "own": part._device._own_secret.hex(),
            "delta": DELTAS[name],
        }
        for name, part in parts.items()
    }


@contextlib.contextmanager
def standing_still(patch):
    drawn = Drawn()
    patch.setattr(secrets, "token_bytes", drawn.token_bytes)
    patch.setattr(
        secrets, "randbelow", lambda most: int.from_bytes(drawn.token_bytes(32), "big") % most
    )
    patch.setattr(secrets, "SystemRandom", functools.partial(random.Random, 1))
    patch.setattr(sum_devices, "X25519PrivateKey", drawn)
    make = functools.partial(
        test_golden.Recorder,
        plan=PLAN,
        kept=SecureRoundStore,
        **{"goal": 5, "max_seats": 6, "min_reports": 5, "sums": secure_steps.settings(SUMS, 3)},
    )
    with test_golden.standing_still(patch, make) as recorder:
        yield recorder


@pytest.fixture
def recorder(monkeypatch):
    with standing_still(monkeypatch) as recorder:
        yield recorder


def check_total(recorder):
    actual = from_grid(recorder.store.total(recorder.store.round), step=SUMS.step)
    present = [delta for name, delta in DELTAS.items() if name != GONE]
    np.testing.assert_array_equal(actual, np.sum(present, axis=0))


def test_our_devices_reproduce_the_messages(recorder):
    assert play(recorder) == json.loads(FILE.read_text())["secrets (never use them)"]
    test_golden.said_as_in(FILE, recorder)
    check_total(recorder)


def test_the_file_alone_makes_the_sum(recorder):
    test_golden.answered_as_in(FILE, recorder)
    check_total(recorder)


class AsWritten:
    """An implementation of `CONSTRUCTION` from the file alone, without our code."""

    def __init__(self):
        self.file = json.loads(FILE.read_text())
        self.secrets = {
            name: {kind: bytes.fromhex(value) for kind, value in drawn.items() if kind != "delta"}
            for name, drawn in self.file["secrets (never use them)"].items()
        }
        keys = self.file["private keys of devices (never use them)"]
        self.keys = {
            name: Ed25519PrivateKey.from_private_bytes(bytes.fromhex(key))
            for name, key in keys.items()
        }
        self.names = {name: key.public_key().public_bytes_raw() for name, key in self.keys.items()}
        task = self.heard("a", "seat")["task"]
        sums = self.file["plan"]["secure_sums"]
        self.context = b"%d %d %d %d " % (
            self.file["plan"]["parameters"],
            sums["bits"],
            sums["degree"],
            sums["threshold"],
        )
        self.context += f"{task['secure_sum']} {task['plan']} {task['model']}".encode()

    def bodies(self, name, what, side):
        expected = f"{name}: {what}" if what != "seat" else f"{name}: a seat"
        actual = [x for x in self.file["exchanges"] if x["why"] == expected]
        return [bytes.fromhex(x[side]["hex"]) for x in actual if x["answer"]["status"] == 200]

    def heard(self, name, what, key=None):
        answers = map(json.loads, self.bodies(name, what, "answer"))
        return next(x for x in answers if key is None or key in x)

    def said(self, name, what):
        return json.loads(self.bodies(name, what, "request")[-1])

    def agreed(self, private, public, info):
        key = X25519PrivateKey.from_private_bytes(private)
        ends = sorted([key.public_key().public_bytes_raw(), public])
        secret = key.exchange(X25519PublicKey.from_public_bytes(public))
        return hkdf(secret, self.context + info + b"".join(ends))

    def stream(self, key, info):
        counter = modes.CTR(bytes(16))
        encryptor = Cipher(algorithms.AES256(hkdf(key, self.context + info)), counter).encryptor()
        return np.frombuffer(encryptor.update(bytes(12)), "<u4").astype(object)

    def public(self, name, kind):
        return X25519PrivateKey.from_private_bytes(self.secrets[name][kind]).public_key()

    def masked(self, name):
        drawn, mine = self.secrets[name], self.names[name]
        total = np.array([int(x * 2**20) for x in DELTAS[name]], object)
        total += self.stream(drawn["own"], b" own")
        for envelope in self.heard(name, "share", "envelopes")["envelopes"]:
            other = next(n for n in self.names if self.names[n].hex() == envelope["other"])
            public = self.public(other, "mask").public_bytes_raw()
            mask = self.stream(self.agreed(drawn["mask"], public, b" pair"), b" pair")
            total += mask if mine < self.names[other] else -mask
        return b"".join((x % 2**32).to_bytes(4, "little") for x in total)

    def shares(self, dealer):
        """Returns `{x: (share of own secret, of mask key)}`, as read by the recipients."""
        sent = self.said(dealer, "share")
        actual = {}
        for position, envelope in enumerate(sorted(sent["envelopes"], key=lambda x: x["other"]), 1):
            to = next(n for n in self.names if self.names[n].hex() == envelope["other"])
            public = self.public(dealer, "channel").public_bytes_raw()
            key = self.agreed(self.secrets[to]["channel"], public, b" channel")
            sealed = bytes.fromhex(envelope["sealed"])
            data = self.context + self.names[dealer] + self.names[to]
            opened = AESGCM(key).decrypt(sealed[:12], sealed[12:], data)
            actual[position] = own, pair = opened[:66], opened[66:]
            assert envelope["own"] == self.digest(b" own", own)
            assert envelope["pair"] == self.digest(b" pair", pair)
        assert sent["own_secret"] == self.digest(b" own", self.secrets[dealer]["own"])
        return actual

    def sign(self, purpose, *names):
        keys = b"".join(
            self.names[name]
            + self.public(name, "channel").public_bytes_raw()
            + self.public(name, "mask").public_bytes_raw()
            for name in names
        )
        text = b"tff-keyboard secure sum 2 " + purpose + b" " + keys + self.context
        return self.keys[names[0]].sign(text).hex()

    def signed(self, purpose, name, others):
        """Returns signatures of a device about others, by these."""
        return {self.names[x].hex(): self.sign(purpose, name, x) for x in others}

    def digest(self, kind, value):
        length = str(len(self.context)).encode()
        return hashlib.sha256(length + b" " + self.context + kind + b" " + value).hexdigest()


def hkdf(key, info):
    return hmac.digest(hmac.digest(bytes(32), key, "sha256"), info + b"\1", "sha256")


def at_zero(shares):
    """Returns the value at 0 of the polynomial through some points, modulo 2^521 - 1."""
    prime, total = 2**521 - 1, 0
    for x, share in shares.items():
        others = [other for other in shares if other != x]
        above, below = math.prod(others), math.prod(other - x for other in others)
        total += int.from_bytes(share, "big") * above * pow(below, -1, prime)
    return (total % prime).to_bytes(66, "big")[-32:]


@pytest.mark.parametrize("name", [name for name in DELTAS if name != GONE])
def test_an_upload_is_made_as_the_file_says(name):
    written = AsWritten()
    assert written.bodies(name, "upload", "request")[0].endswith(written.masked(name))


@pytest.mark.parametrize("name", DELTAS)
def test_shares_are_made_as_the_file_says(name):
    written = AsWritten()
    shares = written.shares(name)
    for kind, secret in enumerate(("own", "mask")):
        for chosen in itertools.combinations(shares, SUMS.threshold):
            assert at_zero({x: shares[x][kind] for x in chosen}) == written.secrets[name][secret]


def test_the_shares_revealed_are_those_dealt():
    written = AsWritten()
    asked = written.heard("b", "confirm", "dropped")
    assert asked["dropped"] == [written.names[GONE].hex()]
    for name, device in written.names.items():
        dealt = {share.hex(): kind for pair in written.shares(name).values()
                 for kind, share in enumerate(pair)}  # fmt: skip
        given = written.said("b", "unmask")["shares"].get(device.hex())
        assert given is None or dealt[given] == (name == GONE)


@pytest.mark.parametrize("name", DELTAS)
def test_signed_bytes_match_the_file(name):
    written = AsWritten()
    assert written.said(name, "advertise")["signature"] == written.sign(b"advert", name)
    if name == GONE:
        return
    near = [x for x in DELTAS if written.names[x].hex() in others_of(written, name)]
    assert len(near) == SUMS.degree
    header, _ = messages.unpack_upload(written.bodies(name, "upload", "request")[0])
    assert header.included == written.signed(b"included", name, near)
    there = [x for x in near if x != GONE]
    told = written.heard(name, "confirm", "dropped")
    expected = {written.names[x].hex(): written.sign(b"included", x, name) for x in there}
    assert told["reported"] == expected
    signatures = written.signed(b"confirm", name, there)
    assert written.said(name, "confirm")["signatures"] == signatures
    confirmed = written.heard(name, "confirm", "confirmations")["confirmations"]
    assert SUMS.threshold <= len(confirmed) <= len(there)
    expected = {written.names[x].hex(): written.sign(b"confirm", x, name) for x in there}
    assert confirmed.items() <= expected.items()


def others_of(written, name):
    return {x["other"] for x in written.heard(name, "share", "envelopes")["envelopes"]}


def main():
    with pytest.MonkeyPatch.context() as patch, standing_still(patch) as recorder:
        drawn = play(recorder)
        about = "A secure sum of six devices; f shares and is gone"
        more = {"construction": CONSTRUCTION.splitlines(), "secrets (never use them)": drawn}
        test_golden.write(FILE, about, recorder, DELTAS, **more)


if __name__ == "__main__":
    sys.exit(main())
