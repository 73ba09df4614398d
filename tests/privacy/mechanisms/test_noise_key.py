"""The key of a run: a resumed run has the same key, other runs never do, and nothing reveals it."""

import stat

import numpy as np
import pytest

from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.privacy.mechanisms.noise_key import NoiseKeyError, derive_key, open_noise_key

FACTS = {"mechanism": "gaussian", "clip_norm": 0.5, "noise_multiplier": 1.0, "store_sha256": "ab"}
FIXED = "0123456789abcdef" * 2
SECRET = "a secret of at least sixteen bytes"


def test_resumed_run_has_the_same_key(tmp_path):
    path = tmp_path / "noise_nonce"
    first = open_noise_key(path, FACTS, may_draw=True)
    again = open_noise_key(path, dict(reversed(FACTS.items())), may_draw=False)
    assert first == again
    assert first.source == noise_key.NONCE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [child.name for child in tmp_path.iterdir()] == ["noise_nonce"]


def test_two_runs_of_one_config_share_nothing(tmp_path):
    keys = {open_noise_key(tmp_path / str(i), FACTS, may_draw=True).key for i in range(20)}
    assert len(keys) == 20


@pytest.mark.parametrize(
    "change",
    [
        {"noise_multiplier": 2.0},
        {"clip_norm": 0.25},
        {"mechanism": "tree"},
        {"store_sha256": "ac"},
        {"initial_weights": "new"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_fact_changes_the_key_even_with_a_fixed_nonce(tmp_path, change):
    """With equal noise in runs at z = 1 and z = 2, 2A - B would be the exact sum."""
    one = open_noise_key(tmp_path / "a", FACTS, may_draw=True, fixed_nonce=FIXED)
    other = open_noise_key(tmp_path / "b", FACTS | change, may_draw=True, fixed_nonce=FIXED)
    assert one.key != other.key
    assert one.key_id != other.key_id


def test_a_fixed_nonce_is_a_simulation_and_is_not_stored(tmp_path):
    one = open_noise_key(tmp_path / "a", FACTS, may_draw=False, fixed_nonce=FIXED)
    other = open_noise_key(tmp_path / "b", FACTS, may_draw=False, fixed_nonce=FIXED)
    assert one == other
    assert one.source == noise_key.FIXED_NONCE
    assert not list(tmp_path.iterdir())


def test_key_depends_on_secret_and_nonce(tmp_path, monkeypatch):
    path = tmp_path / "noise_nonce"
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    monkeypatch.setenv("NOISE", SECRET)
    from_file = open_noise_key(path, FACTS, may_draw=True, secret=f"file:{file}")
    from_environment = open_noise_key(path, FACTS, may_draw=False, secret="env:NOISE")
    assert from_file == from_environment
    assert from_file.source == noise_key.SECRET
    assert from_file.key != open_noise_key(path, FACTS, may_draw=False).key


def test_key_and_secret_are_never_printed(tmp_path, monkeypatch):
    key = open_noise_key(tmp_path / "n", FACTS, may_draw=True)
    assert key.key.hex() not in repr(key)
    assert repr(key.key) not in repr(key)
    assert key.key_id not in key.key.hex()
    monkeypatch.setenv("NOISE", "too short")
    with pytest.raises(NoiseKeyError, match="at least 16 bytes, got 9") as error:
        open_noise_key(tmp_path / "n", FACTS, may_draw=False, secret="env:NOISE")
    assert "too short" not in str(error.value)


def test_no_second_nonce_after_a_release(tmp_path):
    with pytest.raises(NoiseKeyError, match="is missing, but rounds were released") as error:
        open_noise_key(tmp_path / "noise_nonce", FACTS, may_draw=False)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", ["", "zz" * 16, "ab" * 15, "AB" * 16])
def test_a_damaged_nonce_is_refused(tmp_path, content):
    path = tmp_path / "noise_nonce"
    path.write_text(content)
    with pytest.raises(NoiseKeyError, match="noise_nonce must be 32 hexadecimal digits"):
        open_noise_key(path, FACTS, may_draw=True)


@pytest.mark.parametrize(
    "place, words",
    [
        ("NOISE", "'env:NAME' or 'file:PATH'"),
        ("env:", "'env:NAME' or 'file:PATH'"),
        ("env:NOT_SET_ANYWHERE", "at least 16 bytes, got 0"),
        ("file:/nowhere/secret", "Cannot read the noise secret /nowhere/secret: No such file"),
    ],
)
def test_wrong_secrets_are_refused(tmp_path, place, words):
    with pytest.raises(NoiseKeyError, match=words):
        open_noise_key(tmp_path / "n", FACTS, may_draw=True, secret=place)
    assert not list(tmp_path.iterdir())


def test_short_material_is_refused():
    with pytest.raises(NoiseKeyError, match="must have 16 bytes, got 3"):
        derive_key(b"abc", FACTS)
    with pytest.raises(NoiseKeyError, match="at least 16 bytes, got 3"):
        derive_key(bytes(16), FACTS, secret=b"abc")
    with pytest.raises(ValueError, match="must have 32 bytes, got 3"):
        noise_key.NoiseKey(key=b"abc", source=noise_key.NONCE)


def test_weights_digest_sees_bits_shapes_and_order():
    a, b = np.zeros([2, 3], np.float32), np.ones([3], np.float32)
    digests = {
        noise_key.weights_digest(weights)
        for weights in ([a, b], [b, a], [a.reshape(3, 2), b], [a, b.astype(np.float64)], [a])
    }
    assert len(digests) == 5
    assert noise_key.weights_digest([a, b]) == noise_key.weights_digest([a.copy(), b.copy()])
