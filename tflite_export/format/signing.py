"""A signature over an export: Ed25519 on its manifest, which has the hash of every other file.

    openssl genpkey -algorithm ed25519 -out release.pem            # stays with who releases
    openssl pkey -in release.pem -pubout -out release.pub.pem      # goes to who checks

The file beside the model, JSON: format, algorithm, SHA-256 of the public key, signature in hex.
Hashes find damage; only a signature, checked with a key that came another way, finds a file made to
attack. Source: RFC 8032.
"""

import hashlib
import json
import pathlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tff_keyboard.storage.errors import CheckFailed, ExportError

FORMAT = "tff-keyboard signature 1"
_CONTEXT = b"tff-keyboard export\0"  # a signature made for another purpose is none here
_MOST_BYTES = 10_000


def read_private_key(path: pathlib.Path) -> Ed25519PrivateKey:
    """A key from an unencrypted PEM file.

    Raises `ExportError` if it cannot be read, or is another kind of key.
    """
    data = _read(path)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ExportError(
            f"{path}: no unencrypted Ed25519 private key. Make one with "
            "`openssl genpkey -algorithm ed25519 -out FILE`."
        )
    return key


def read_public_key(path: pathlib.Path) -> Ed25519PublicKey:
    """A key from a PEM file.

    Raises `ExportError` if it cannot be read, or is another kind of key.
    """
    data = _read(path)
    try:
        key = serialization.load_pem_public_key(data)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ExportError(
            f"{path}: no Ed25519 public key. Make one with "
            "`openssl pkey -in PRIVATE -pubout -out FILE`."
        )
    return key


def sign(manifest: bytes, key: Ed25519PrivateKey) -> bytes:
    """The signature file of a manifest."""
    content = {
        "format": FORMAT,
        "algorithm": "Ed25519",
        "public_key_sha256": key_id(key.public_key()),
        "signature": key.sign(_CONTEXT + manifest).hex(),
    }
    return (json.dumps(content, indent=2) + "\n").encode()


def check_signature(manifest: bytes, signature: bytes, key: Ed25519PublicKey, name: str) -> None:
    """Raises `CheckFailed` unless `signature` is that of `manifest` by the owner of `key`."""
    try:
        content = json.loads(signature)
        if content["format"] != FORMAT:
            raise ValueError("another format")
        signed_by, found = str(content["public_key_sha256"]), bytes.fromhex(content["signature"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckFailed(f"{name}: not a signature file of format {FORMAT!r}.") from None
    if signed_by != key_id(key):
        raise CheckFailed(
            f"{name}: made with another key than the one given (SHA-256 {key_id(key)[:16]}..)."
        )
    try:
        key.verify(found, _CONTEXT + manifest)
    except InvalidSignature:
        raise CheckFailed(
            f"{name}: the signature is not that of this manifest: the export was changed after it "
            "was signed. Do not use it."
        ) from None


def key_id(key: Ed25519PublicKey) -> str:
    """SHA-256, hex, of the 32 bytes of a key."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()


def _read(path: pathlib.Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES)
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror}).") from None
