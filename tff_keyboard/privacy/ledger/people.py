"""Whose text a run has seen, as digests: what two runs compare to know whether they share people.

A file of the run directory, mode 0600, as secret as the data: a line that names the salt, then one
digest a person, HMAC-SHA256(salt, client id) cut to 64 bits, sorted. The salt is the secret of the
noise key where there is one (`aggregation.noise_secret`: one for all runs of a deployment), so that
nobody who lacks it can try names. Without a secret it is a constant: the file then hides nothing
from whoever can guess ids, and the mode is what protects it. Digests under two salts cannot be
compared: such runs count as sharing people.
"""

import dataclasses
import hashlib
import hmac
import pathlib
from collections.abc import Iterable

from tff_keyboard.privacy.mechanisms.noise_key import read_secret
from tff_keyboard.storage import files

SAME, SOME, NONE, UNKNOWN = "same", "some", "none", "unknown"  # how two populations overlap

_DIGITS = 16
_CONSTANT = b"tff-keyboard people 1"


@dataclasses.dataclass(frozen=True)
class People:
    """Digests of people under one salt."""

    salt_id: str  # names the salt and tells nothing of it
    digests: frozenset[str]  # 16 hexadecimal digits a person

    def overlap(self, other: "People") -> str:
        """`SAME`, `SOME` or `NONE` of the people are in both; `UNKNOWN` under different salts."""
        if self.salt_id != other.salt_id:
            return UNKNOWN
        if self.digests == other.digests:
            return SAME
        return SOME if self.digests & other.digests else NONE


def salted(client_ids: Iterable[str], secret: str = "") -> People:
    """The people of a population, of all clients that may be drawn.

    `secret` is `aggregation.privacy.noise_secret`: "", "env:NAME" or "file:PATH". Raises
    `NoiseKeyError` if it is missing or too short.
    """
    return People(salt_id_of(secret), frozenset(digests_of(client_ids, secret)))


def salt_id_of(secret: str = "") -> str:
    """What names the salt of a secret; errors as of `salted`."""
    salt = read_secret(secret) or _CONSTANT
    return hashlib.sha256(b"people salt id" + salt).hexdigest()[:_DIGITS]


def digests_of(client_ids: Iterable[str], secret: str = "") -> list[str]:
    """The digest of each person, in order; arguments and errors as of `salted`."""
    salt = read_secret(secret) or _CONSTANT
    return [
        hmac.digest(salt, client_id.encode(), hashlib.sha256).hex()[:_DIGITS]
        for client_id in client_ids
    ]


def write(path: pathlib.Path, people: People) -> None:
    """Keeps the digests at `path`, readable by its owner alone; one file, whole or not at all."""
    lines = [people.salt_id, *sorted(people.digests)]
    files.write_atomically(path, ["\n".join(lines).encode(), b"\n"], mode=files.OWNER_ONLY)


def read(path: pathlib.Path) -> People | None:
    """What `write` wrote; None: there is no such file.

    Raises `RunDirectoryError` if it is damaged.
    """
    if not path.exists():
        return None
    salt_id, *digests = files.read_text(path).split() or [""]
    if any(len(word) != _DIGITS for word in (salt_id, *digests)):
        raise files.damaged(path, "it is no list of digests")
    return People(salt_id, frozenset(digests))
