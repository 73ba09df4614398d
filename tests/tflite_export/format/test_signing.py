"""Signatures, and `verify` of complete, damaged and forged exports."""

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.storage.errors import CheckFailed, ExportError
from tflite_export.export.export_options import ExportOptions
from tflite_export.format import manifest, signing
from tflite_export.gate.verification import verify

KEY, OTHER = (ed25519.Ed25519PrivateKey.generate() for _ in range(2))
DATA = b'{"format": 1}\n'


def private_pem(key, encryption=None):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        encryption or serialization.NoEncryption(),
    )


def public_pem(key):
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name, key in (("ours", KEY), ("theirs", OTHER)):
        (folder / f"{name}.pem").write_bytes(private_pem(key))
        (folder / f"{name}.pub.pem").write_bytes(public_pem(key))
    return folder


def check(data=DATA, signature=None, key=KEY):
    signing.check_signature(data, signature or signing.sign(DATA, KEY), key.public_key(), "k.sig")


def test_a_signature_is_of_these_bytes_by_this_key(keys):
    check()
    assert signing.sign(DATA, signing.read_private_key(keys / "ours.pem")) == signing.sign(
        DATA, KEY
    )
    assert signing.key_id(signing.read_public_key(keys / "ours.pub.pem")) == signing.key_id(
        KEY.public_key()
    )
    with pytest.raises(CheckFailed, match="changed after signing"):
        check(data=DATA + b" ")
    with pytest.raises(CheckFailed, match="signed with a different key"):
        check(key=OTHER)


def test_a_signature_whose_key_is_claimed_is_not_that_of_the_key():
    forged = json.loads(signing.sign(DATA, OTHER))
    forged["public_key_sha256"] = signing.key_id(KEY.public_key())
    with pytest.raises(CheckFailed, match="changed after signing"):
        check(signature=json.dumps(forged).encode())


def test_a_signature_made_for_another_purpose_is_none():
    content = json.loads(signing.sign(DATA, KEY))
    content["signature"] = KEY.sign(DATA).hex()
    with pytest.raises(CheckFailed, match="changed after signing"):
        check(signature=json.dumps(content).encode())


@pytest.mark.parametrize(
    "signature",
    [b"", b"{}", b"[]", b"\xff", b"[" * 100_000, b'{"format": "tff-keyboard signature 1"}'],
)
def test_a_file_that_is_no_signature(signature):
    with pytest.raises(CheckFailed, match="not a signature file"):
        signing.check_signature(DATA, signature, KEY.public_key(), "k.sig")


def test_other_keys_are_refused(tmp_path, keys):
    curve = ec.generate_private_key(ec.SECP256R1())
    locked = serialization.BestAvailableEncryption(b"secret")
    for name, data in (
        ("none", None),
        ("curve", private_pem(curve)),
        ("locked", private_pem(KEY, locked)),
        ("public", public_pem(KEY)),
        ("text", b"hello"),
    ):
        path = tmp_path / name
        if data is not None:
            path.write_bytes(data)
        with pytest.raises(ExportError, match=name):
            signing.read_private_key(path)
    for read in (signing.read_private_key, signing.read_public_key):
        with pytest.raises(ExportError, match="cannot be read"):
            read(tmp_path / "none")
    with pytest.raises(ExportError, match="not an Ed25519 public key"):
        signing.read_public_key(keys / "ours.pem")


@pytest.fixture(scope="module", params=[False, True], ids=["beside", "packed"])
def signed(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    run = export_fakes.save_run(folder / "run")
    options = ExportOptions(pack=request.param)
    return export(run, folder / "k.tflite", options, sign_key=KEY).paths


def test_verify_says_what_it_found(signed, keys):
    lines = verify(signed.model, keys / "ours.pub.pem")
    assert any("open" in line for line in lines)
    assert "model card: matches the manifest" in lines
    assert lines[-1].startswith("signature: valid, from key ")
    assert verify(signed.model, None)[-1].startswith("signature: present, not checked")
    with pytest.raises(CheckFailed, match="signed with a different key"):
        verify(signed.model, keys / "theirs.pub.pem")


def copy(paths, folder):
    for path in paths.model.parent.glob("k.*"):
        (folder / path.name).write_bytes(path.read_bytes())
    return manifest.ExportPaths(folder / "k.tflite")


def test_an_export_that_was_changed_and_hashed_anew_is_not_signed(signed, keys, tmp_path):
    paths = copy(signed, tmp_path)
    if not paths.manifest.exists():
        data = bytearray(paths.model.read_bytes())
        place = data.index(b"trained without")
        data[place : place + 7] = b"TRAINED"
        paths.model.write_bytes(data)
        with pytest.raises(ExportError, match="damaged"):
            verify(paths.model, keys / "ours.pub.pem")
        return
    content = json.loads(paths.manifest.read_text())
    content["privacy"] = "epsilon = 0.1"
    paths.manifest.write_text(json.dumps(content))
    verify(paths.model, None)  # whole, by its hashes
    with pytest.raises(CheckFailed, match="changed after signing"):
        verify(paths.model, keys / "ours.pub.pem")


def test_a_missing_part_is_said(signed, keys, tmp_path):
    paths = copy(signed, tmp_path)
    if not paths.manifest.exists():
        return
    paths.part("keyboard.sig").unlink()
    with pytest.raises(CheckFailed, match="is not signed"):
        verify(paths.model, keys / "ours.pub.pem")
    assert verify(paths.model, None)[-1].startswith("signature: none")
    paths.part("keyboard.md").write_text("# Another card\n")
    with pytest.raises(ExportError, match="model card is missing or does not match"):
        verify(paths.model, None)
