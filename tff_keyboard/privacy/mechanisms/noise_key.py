"""The key of a run's noise: what it is made of, where it is kept, how two runs never share one.

    key = HKDF-SHA256(nonce + secret; info = SHA-256 of the facts)

- nonce: 128 bits, drawn once a run by the operating system and kept in the run directory, mode
  0600, outside everything that is released (checkpoints, model, metrics, ledger).
- secret: bytes from a file or an environment variable outside the run directory; a deployment sets
  it, so that a copy of the run directory does not hold the noise. Without it the nonce alone is
  what hides the noise.
- facts: the whole resolved config but `[execution]` and what a run may be resumed with
  (`config/kept_keys.py`), the mechanism's coefficients, hashes of the client store and of the
  general one, the people who wait at the beginning (`participation.py`), digest of the initial
  weights: whatever the sums depend on, under one version of the code. With them no two different
  sums share a stream even where a nonce is fixed or copied: of two runs with one noise the exact
  sums could be computed without knowing the key.

A resumed run reads its nonce, derives the same key and so repeats the same noise. `key_id` names
the key without giving it away; the ledger records it, and whoever compares runs refuses two
ledgers with one `key_id`. `cohort_key`, derived from it under a label of its own, says who takes
part (`federated/learning/cohorts.py`).
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf import hkdf

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import RunDirectoryError

NONCE_BYTES = 16
MIN_SECRET_BYTES = 16

NONCE = "nonce"  # drawn for the run, kept in its directory
SECRET = "secret"  # also a secret from outside the run directory
FIXED_NONCE = "fixed nonce"  # given by the config: reproducible, a simulation

_HEX_NONCE = re.compile(r"[0-9a-f]{32}")
_SALT = b"tff-keyboard noise key 1"
_ID_SALT = b"tff-keyboard noise key id 1"
_COHORT_SALT = b"tff-keyboard cohort key 1"


class NoiseKeyError(RunDirectoryError, ValueError):
    """A nonce or a secret is missing or malformed; the message is one line."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseKey:
    """256 bits and where they come from."""

    key: bytes = dataclasses.field(repr=False)  # key of 32 bytes; never printed
    source: str  # origin of the key: `NONCE`, `SECRET` or `FIXED_NONCE`

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise ValueError(f"`key` must have 32 bytes, got {len(self.key)}.")

    @property
    def key_id(self) -> str:
        """32 hexadecimal digits that name the key and tell nothing of it."""
        return _derive(self.key, _ID_SALT, b"").hex()[:32]

    @property
    def cohort_key(self) -> bytes:
        """32 bytes that salt the cohorts; b"" of a fixed nonce, which is no secret."""
        return b"" if self.source == FIXED_NONCE else _derive(self.key, _COHORT_SALT, b"")


def derive_key(nonce: bytes, facts: Mapping[str, Any], *, secret: bytes = b"") -> bytes:
    """The 32 bytes of the module's formula, of a nonce of 16 and a secret of 16 at least, or none.

    `facts` are JSON values; order does not matter, every value does. Raises `NoiseKeyError` if the
    nonce or the secret is too short.
    """
    if len(nonce) != NONCE_BYTES:
        raise NoiseKeyError(f"The noise nonce must have {NONCE_BYTES} bytes, got {len(nonce)}.")
    if secret and len(secret) < MIN_SECRET_BYTES:
        raise NoiseKeyError(
            f"The noise secret must have at least {MIN_SECRET_BYTES} bytes, got {len(secret)}. "
            "Make one with `openssl rand -hex 32`."
        )
    text = json.dumps(facts, sort_keys=True, allow_nan=False)
    return _derive(nonce + secret, _SALT, hashlib.sha256(text.encode()).digest())


def open_noise_key(
    nonce_path: pathlib.Path,
    facts: Mapping[str, Any],
    *,
    may_draw: bool,
    secret: str = "",
    fixed_nonce: str = "",
) -> NoiseKey:
    """The key of a run: reads its nonce, or draws and stores one if it has none yet.

    `may_draw`: nothing was released yet. A nonce drawn later would publish the same data under a
    second noise. A secret is "", "env:NAME" or "file:PATH"; a fixed nonce, for simulations, has 32
    hexadecimal digits and is not stored. Raises `NoiseKeyError` if the nonce is missing after
    rounds were released, or anything is malformed.
    """
    secret_bytes = read_secret(secret)
    if fixed_nonce:
        key = derive_key(_parsed(fixed_nonce, "`fixed_nonce`"), facts, secret=secret_bytes)
        return NoiseKey(key=key, source=FIXED_NONCE)
    if not nonce_path.exists():
        if not may_draw:
            raise NoiseKeyError(
                f"{nonce_path} is missing, but rounds were released with its noise. Restore the "
                "file, or start a new run directory."
            )
        nonce = secrets.token_bytes(NONCE_BYTES).hex().encode()
        files.write_atomically(nonce_path, [nonce, b"\n"], mode=files.OWNER_ONLY)
    drawn = _parsed(files.read_text(nonce_path).strip(), str(nonce_path))
    key = derive_key(drawn, facts, secret=secret_bytes)
    return NoiseKey(key=key, source=SECRET if secret_bytes else NONCE)


def read_secret(place: str) -> bytes:
    """The secret at "env:NAME" or "file:PATH", without surrounding white space; b"" for "".

    Raises `NoiseKeyError` if there is none, or it is too short. The message never has its content.
    """
    if not place:
        return b""
    kind, _, name = place.partition(":")
    if kind not in ("env", "file") or not name:
        raise NoiseKeyError("The noise secret must be given as 'env:NAME' or 'file:PATH'.")
    if kind == "env":
        content = os.environ.get(name, "").encode()
    else:
        try:
            content = pathlib.Path(name).read_bytes()
        except OSError as error:
            raise NoiseKeyError(f"Cannot read the noise secret {name}: {error.strerror}.") from None
    content = content.strip()
    if len(content) < MIN_SECRET_BYTES:
        raise NoiseKeyError(
            f"The noise secret {place} must have at least {MIN_SECRET_BYTES} bytes, got "
            f"{len(content)}. Make one with `openssl rand -hex 32`."
        )
    return content


def weights_digest(weights: Sequence[np.ndarray]) -> str:
    """SHA-256 of arrays: shapes, dtypes and bits, in order."""
    digest = hashlib.sha256()
    for array in weights:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _derive(material: bytes, salt: bytes, info: bytes) -> bytes:
    return hkdf.HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(material)


def _parsed(text: str, what: str) -> bytes:
    if not _HEX_NONCE.fullmatch(text):
        raise NoiseKeyError(f"{what} must be 32 hexadecimal digits (128 bits, lower case).")
    return bytes.fromhex(text)
