"""Signatures of requests, and participation tokens: forgeries are rejected."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_fleet.wire import keys, tokens
from tff_keyboard_fleet.wire.messages import Refused

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
OTHER = Ed25519PrivateKey.from_private_bytes(bytes([1] * 32))
REQUEST = ("PUT", "/v1/rounds/1/upload", b"body")
NOW = 1_800_000_000.0
TOOK_PART = tokens.Participation("00ff", 7, 1)


def test_a_signed_request_names_its_device():
    headers = keys.sign_request(KEY, *REQUEST, now=NOW)
    assert keys.check_request(headers, *REQUEST, now=NOW + 299) == keys.public_hex(KEY)


@pytest.mark.parametrize(
    "request_",
    [
        ("POST", REQUEST[1], REQUEST[2]),
        (REQUEST[0], "/v1/rounds/2/upload", REQUEST[2]),
        (REQUEST[0], REQUEST[1], b"bodY"),
    ],
    ids=["method", "path", "body"],
)
def test_a_signature_is_of_one_request(request_):
    headers = keys.sign_request(KEY, *REQUEST, now=NOW)
    with pytest.raises(Refused, match="bad_signature"):
        keys.check_request(headers, *request_, now=NOW)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        (keys.DEVICE_KEY, keys.public_hex(OTHER)),
        (keys.DEVICE_KEY, "no hex"),
        (keys.DEVICE_KEY, ""),
        (keys.DEVICE_TIME, str(int(NOW) + 1)),
        (keys.DEVICE_SIGNATURE, "00" * 64),
    ],
)
def test_a_changed_header_is_refused(header, value):
    headers = keys.sign_request(KEY, *REQUEST, now=NOW) | {header: value}
    with pytest.raises(Refused, match="bad_signature"):
        keys.check_request(headers, *REQUEST, now=NOW)


@pytest.mark.parametrize("off", [-301, 301])
def test_wrong_clock_is_rejected(off):
    headers = keys.sign_request(KEY, *REQUEST, now=NOW)
    with pytest.raises(Refused, match="stale_time"):
        keys.check_request(headers, *REQUEST, now=NOW + off)


def test_a_clock_of_hundreds_of_digits_is_off():
    clock = "9" * 400
    signature = KEY.sign(keys._signed(REQUEST[0], REQUEST[1], clock, REQUEST[2])).hex()
    headers = keys.sign_request(KEY, *REQUEST, now=NOW)
    headers |= {keys.DEVICE_TIME: clock, keys.DEVICE_SIGNATURE: signature}
    with pytest.raises(Refused, match="bad_signature"):
        keys.check_request(headers, *REQUEST, now=NOW)


@pytest.mark.parametrize("written", [str.upper, lambda key: f" {key[:2]} {key[2:]}\t"])
def test_a_key_has_one_name_however_it_is_written(written):
    headers = keys.sign_request(KEY, *REQUEST, now=NOW)
    headers[keys.DEVICE_KEY] = written(headers[keys.DEVICE_KEY])
    assert keys.check_request(headers, *REQUEST, now=NOW) == keys.public_hex(KEY)


def test_a_token_says_when_its_device_took_part():
    token = tokens.sign(KEY, "d1", TOOK_PART)
    assert token == tokens.sign(KEY, "d1", TOOK_PART)
    assert tokens.check(KEY.public_key(), "d1", token) == TOOK_PART


def test_a_token_of_another_device_server_or_round_is_forged():
    token = tokens.sign(KEY, "d1", TOOK_PART)
    forged = [
        (KEY, "d2", token),
        (OTHER, "d1", token),
        (KEY, "d1", token.replace(".7.", ".3.")),
        (KEY, "d1", token + ".1"),
        (KEY, "d1", ""),
        (KEY, "d1", "a.b.c.d"),
    ]
    for key, device, text in forged:
        with pytest.raises(Refused, match="forged_token"):
            tokens.check(key.public_key(), device, text)


def test_a_pseudonym_needs_the_secret():
    digests = {tokens.digest(secret, d) for secret in (b"1", b"2") for d in ("d1", "d2")}
    assert len(digests) == 4
    assert tokens.digest(b"1", "d1") == tokens.digest(b"1", "d1")


def test_a_key_is_made_once(tmp_path):
    path = tmp_path / "key.pem"
    assert keys.public_hex(keys.open_key(path)) == keys.public_hex(keys.open_key(path))
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("something else")
    with pytest.raises(ProgramError, match="not an unencrypted Ed25519 key"):
        keys.open_key(path)
