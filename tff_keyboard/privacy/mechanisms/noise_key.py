"""The key of a run's noise: its derivation, its storage, and why no two runs share one.

    key = HKDF-SHA256(nonce + secret; info = SHA-256 of the facts)

- nonce: 128 bits, drawn once per run by the operating system and kept in the run directory, mode
  0600, separate from everything that is released (checkpoints, model, metrics, ledger).
- secret: bytes from a file or an environment variable outside the run directory. A deployment sets
  it, so that a copy of the run directory does not reveal the noise. Without a secret only the nonce
  protects the noise.
- facts: everything that the sums depend on, under one version of the code: the resolved config
  without `[execution]` and the keys that may change on resume (`config/resume_policy.py`), the
  mechanism's coefficients, the hashes of the client store and of the general store, and the digest
  of the initial weights. In a simulation the facts determine the data of every round, so no two
  different sums share a noise stream even if a nonce is fixed or copied. The uploads of devices are
  not facts. Their noise also depends on a tag of the uploads (`noise_content.py`), made with
  `tag_key`. Two runs with the same noise would reveal the exact difference of their sums without
  the key.

A resumed run reads its nonce, derives the same key and therefore repeats the same noise. `key_id`
identifies the key without revealing it. The ledger records it, and comparisons of runs reject two
ledgers with the same `key_id`. `cohort_key`, derived from the key with its own label, determines
the cohorts (`algorithms/cohorts.py`).
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf import hkdf

from tff_keyboard.storage import files
from tff_keyboard.storage.errors import RunDirectoryError

NONCE_BYTES = 16
MIN_SECRET_BYTES = 16

NONCE: Final = "nonce"  # drawn for the run, kept in its directory
SECRET: Final = "secret"  # a nonce and a secret from outside the run directory
FIXED_NONCE: Final = "fixed nonce"  # from the config: reproducible, for simulations
Source: TypeAlias = Literal["nonce", "secret", "fixed nonce"]

_HEX_NONCE = re.compile(r"[0-9a-f]{32}")
_SALT = b"tff-keyboard noise key 1"
_ID_SALT = b"tff-keyboard noise key id 1"
_COHORT_SALT = b"tff-keyboard cohort key 1"
_TAG_SALT = b"tff-keyboard content tag key 1"
_FACTS_SALT = b"tff-keyboard bound key 1"


class NoiseKeyError(RunDirectoryError, ValueError):
    """A missing or malformed nonce or secret. The message is one line."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class NoiseKey:
    """A 256-bit key and its origin."""

    key: bytes = dataclasses.field(repr=False)  # 32 bytes; never printed
    source: Source  # `NONCE`, `SECRET` or `FIXED_NONCE`

    def __post_init__(self) -> None:
        if len(self.key) != 32:
            raise ValueError(f"`key` must have 32 bytes, got {len(self.key)}.")

    @property
    def key_id(self) -> str:
        """32 hexadecimal digits that identify the key without revealing it."""
        return _derive(self.key, _ID_SALT, b"").hex()[:32]

    @property
    def cohort_key(self) -> bytes:
        """32 bytes that salt the cohorts; b"" for a fixed nonce, which is not secret."""
        return b"" if self.source == FIXED_NONCE else _derive(self.key, _COHORT_SALT, b"")

    @property
    def tag_key(self) -> bytes:
        """32 bytes with which the data of a round is tagged (`noise_content.py`)."""
        return tag_key(self.key)


def tag_key(key: bytes) -> bytes:
    """Returns the key for tags of a round's data that belongs to a noise key of 32 bytes."""
    return _derive(key, _TAG_SALT, b"")


def bound_key(key: bytes, facts: Mapping[str, Any]) -> bytes:
    """Returns the key of 32 bytes that belongs to a key of 32 bytes and to facts, JSON values."""
    text = json.dumps(facts, sort_keys=True, allow_nan=False)
    return _derive(key, _FACTS_SALT, hashlib.sha256(text.encode()).digest())


def derive_key(nonce: bytes, facts: Mapping[str, Any], *, secret: bytes = b"") -> bytes:
    """Returns the 32 bytes of the module's formula.

    Args:
      nonce: 16 bytes.
      facts: JSON values. Their order does not matter.
      secret: At least 16 bytes, or b"".

    Raises:
      NoiseKeyError: If the nonce does not have 16 bytes, or the secret is too short.
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
    """Returns the key of a run. Reads its nonce, or draws and stores one if there is none.

    Args:
      nonce_path: The file of the nonce.
      facts: See the module.
      may_draw: Whether a nonce may be drawn, because nothing was released yet. A nonce drawn later
        would publish the same data with a second noise.
      secret: "", "env:NAME" or "file:PATH".
      fixed_nonce: 32 hexadecimal digits for simulations, which are not stored, or "".

    Raises:
      NoiseKeyError: If the nonce is missing after rounds were released, or a value is malformed.
    """
    secret_bytes = read_secret(secret)
    if fixed_nonce:
        key = derive_key(_parse_nonce(fixed_nonce, "`fixed_nonce`"), facts, secret=secret_bytes)
        return NoiseKey(key=key, source=FIXED_NONCE)
    if not nonce_path.exists():
        if not may_draw:
            raise NoiseKeyError(
                f"{nonce_path} is missing, but rounds were released with its noise. Restore the "
                "file, or start a new run directory."
            )
        nonce = secrets.token_bytes(NONCE_BYTES).hex().encode()
        files.write_atomically(nonce_path, [nonce, b"\n"], mode=files.OWNER_ONLY)
    nonce_bytes = _parse_nonce(files.read_text(nonce_path).strip(), str(nonce_path))
    key = derive_key(nonce_bytes, facts, secret=secret_bytes)
    return NoiseKey(key=key, source=SECRET if secret_bytes else NONCE)


def read_secret(reference: str) -> bytes:
    """Returns the secret at "env:NAME" or "file:PATH", without surrounding white space.

    Returns b"" for "". Raises `NoiseKeyError` if the secret is missing or too short. The message
    never contains the secret.
    """
    if not reference:
        return b""
    kind, _, name = reference.partition(":")
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
            f"The noise secret {reference} must have at least {MIN_SECRET_BYTES} bytes, got "
            f"{len(content)}. Make one with `openssl rand -hex 32`."
        )
    return content


def weights_digest(weights: Sequence[np.ndarray]) -> str:
    """Returns the SHA-256 of arrays: their shapes, dtypes and bits, in order."""
    digest = hashlib.sha256()
    for array in weights:
        array = np.ascontiguousarray(array)
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _derive(material: bytes, salt: bytes, info: bytes) -> bytes:
    return hkdf.HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=info).derive(material)


def _parse_nonce(text: str, what: str) -> bytes:
    if not _HEX_NONCE.fullmatch(text):
        raise NoiseKeyError(f"{what} must be 32 hexadecimal digits (128 bits, lower case).")
    return bytes.fromhex(text)
