"""The clients of a run, as digests, to find out if two runs share clients.

The file in the run directory, mode 0600, is as secret as the data: a line with the id of the salt,
then one digest per client, HMAC-SHA256(salt, client id) cut to 64 bits, sorted. The salt is the
secret of the noise key if there is one (`aggregation.privacy.noise_secret`, one for all runs of a
deployment), so that names cannot be tested without it. Without a secret the salt is a constant: the
digests then hide nothing if client ids can be guessed, and only the file mode protects them.
Digests under two salts cannot be compared, so such runs count as sharing clients.
"""

import dataclasses
import hashlib
import hmac
import pathlib
from collections.abc import Iterable

from tff_keyboard.privacy.mechanisms.noise_key import read_secret
from tff_keyboard.storage import files

SAME, SOME, NONE, UNKNOWN = "same", "some", "none", "unknown"  # overlap of two populations

_DIGITS = 16
_CONSTANT = b"tff-keyboard people 1"  # in the digests of all runs, so it cannot change


@dataclasses.dataclass(frozen=True)
class ClientDigests:
    """Digests of clients under one salt."""

    salt_id: str  # identifies the salt without revealing it
    digests: frozenset[str]  # 16 hexadecimal digits per client

    def overlap(self, other: "ClientDigests") -> str:
        """Returns `SAME`, `SOME` or `NONE`; or `UNKNOWN` if the salts differ."""
        if self.salt_id != other.salt_id:
            return UNKNOWN
        if self.digests == other.digests:
            return SAME
        return SOME if self.digests & other.digests else NONE


def salted(client_ids: Iterable[str], secret: str = "") -> ClientDigests:
    """Returns the digests of a population, that is, of all clients that may be drawn.

    Args:
      client_ids: Ids of the clients.
      secret: `aggregation.privacy.noise_secret`: "", "env:NAME" or "file:PATH".

    Raises:
      NoiseKeyError: If the secret is missing or too short.
    """
    salt = read_secret(secret) or _CONSTANT
    digests = (hmac.digest(salt, client_id.encode(), "sha256") for client_id in client_ids)
    return ClientDigests(
        hashlib.sha256(b"people salt id" + salt).hexdigest()[:_DIGITS],
        frozenset(digest.hex()[:_DIGITS] for digest in digests),
    )


def write(path: pathlib.Path, clients: ClientDigests) -> None:
    """Writes the digests to `path` atomically, readable only by the owner."""
    lines = [clients.salt_id, *sorted(clients.digests)]
    files.write_atomically(path, ["\n".join(lines).encode(), b"\n"], mode=files.OWNER_ONLY)


def read(path: pathlib.Path) -> ClientDigests | None:
    """Returns the digests that `write` wrote, or None if there is no such file.

    Raises `RunDirectoryError` if the file is damaged.
    """
    if not path.exists():
        return None
    salt_id, *digests = files.read_text(path).split() or [""]
    if any(len(word) != _DIGITS for word in (salt_id, *digests)):
        raise files.damaged(path, "it is not a list of digests")
    return ClientDigests(salt_id, frozenset(digests))
