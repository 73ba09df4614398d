"""Signs an export: Ed25519 over its manifest, which has the hash of every other file.

    openssl genpkey -algorithm ed25519 -out release.pem            # the publisher keeps it secret
    openssl pkey -in release.pem -pubout -out release.pub.pem      # for everyone who verifies

The signature file next to the model is JSON: format, algorithm, SHA-256 of the public key, and the
signature in hex. Hashes detect damage. Only a signature, checked with a key that was received in
another way, detects a file that an attacker made. Source: RFC 8032.
"""

import hashlib
import json
import pathlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tff_keyboard.storage import json_text
from tff_keyboard.storage.errors import CheckFailed, ExportError

FORMAT = "tff-keyboard signature 1"
_CONTEXT = (
    b"tff-keyboard export\0"  # so that a signature made for another purpose is not valid here
)
_MAX_BYTES = 10_000


def read_private_key(path: pathlib.Path) -> Ed25519PrivateKey:
    """Reads a private key from an unencrypted PEM file.

    Raises:
      ExportError: If the file cannot be read, or holds another kind of key.
    """
    data = _read(path)
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ExportError(
            f"{path}: not an unencrypted Ed25519 private key. Create one with "
            "`openssl genpkey -algorithm ed25519 -out FILE`."
        )
    return key


def read_public_key(path: pathlib.Path) -> Ed25519PublicKey:
    """Reads a public key from a PEM file.

    Raises:
      ExportError: If the file cannot be read, or holds another kind of key.
    """
    data = _read(path)
    try:
        key = serialization.load_pem_public_key(data)
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ExportError(
            f"{path}: not an Ed25519 public key. Create one with "
            "`openssl pkey -in PRIVATE -pubout -out FILE`."
        )
    return key


def sign(manifest: bytes, key: Ed25519PrivateKey) -> bytes:
    """Returns the signature file of a manifest."""
    content = {
        "format": FORMAT,
        "algorithm": "Ed25519",
        "public_key_sha256": key_id(key.public_key()),
        "signature": key.sign(_CONTEXT + manifest).hex(),
    }
    return (json.dumps(content, indent=2) + "\n").encode()


def check_signature(manifest: bytes, signature: bytes, key: Ed25519PublicKey, name: str) -> None:
    """Checks that `signature` is a signature of `manifest` by the owner of `key`.

    Raises:
      CheckFailed: If it is not.
    """
    try:
        content = json_text.parse(signature)
        if content["format"] != FORMAT:
            raise ValueError("another format")
        signed_by = str(content["public_key_sha256"])
        signature_bytes = bytes.fromhex(content["signature"])
    except (ValueError, KeyError, TypeError):
        raise CheckFailed(f"{name}: not a signature file of format {FORMAT!r}.") from None
    if signed_by != key_id(key):
        raise CheckFailed(
            f"{name}: signed with a different key than the given one (SHA-256 "
            f"{key_id(key)[:16]}..)."
        )
    try:
        key.verify(signature_bytes, _CONTEXT + manifest)
    except InvalidSignature:
        raise CheckFailed(
            f"{name}: the signature does not match the manifest: the export was changed after "
            "signing. Do not use it."
        ) from None


def key_id(key: Ed25519PublicKey) -> str:
    """Returns the SHA-256, in hex, of the 32 bytes of a key."""
    raw = key.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return hashlib.sha256(raw).hexdigest()


def _read(path: pathlib.Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES)
    except OSError as error:
        raise ExportError(f"{path}: cannot be read ({error.strerror}).") from None
