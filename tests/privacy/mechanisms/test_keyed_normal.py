"""The generator: AES test vectors, a normal distribution including tails, independent labels."""

import hashlib
import hmac
import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from tff_keyboard.privacy.mechanisms import keyed_normal as module
from tff_keyboard.privacy.mechanisms.keyed_normal import keyed_bytes, keyed_normal, keyed_uint64

KEY = bytes(range(32))


def test_bytes_are_aes_256_in_counter_mode_under_the_labels_own_key():
    subkey = hmac.new(KEY, b"round 3", hashlib.sha256).digest()
    block = Cipher(algorithms.AES256(subkey), modes.ECB()).encryptor()
    expected = b"".join(block.update(counter.to_bytes(16, "big")) for counter in range(4))
    assert keyed_bytes(KEY, "round 3", 50) == expected[:50]


@pytest.mark.parametrize("size", [0, 1, 2, 7, 200_001])
def test_a_pure_function_of_key_label_and_size(size):
    one = keyed_normal(KEY, "a", size)
    assert one.shape == (size,)
    assert one.dtype == np.float64
    np.testing.assert_array_equal(one, keyed_normal(KEY, "a", size))


def test_normal_law():
    draws = keyed_normal(KEY, "law", 1_000_000)
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    assert abs(draws.mean()) < 4e-3
    assert draws.var() == pytest.approx(1, abs=6e-3)
    assert stats.kurtosis(draws) == pytest.approx(0, abs=0.02)


def test_labels_and_keys_are_unrelated():
    size = 100_000
    draws = [
        keyed_normal(KEY, "a", size),
        keyed_normal(KEY, "b", size),
        keyed_normal(bytes(32), "a", size),
    ]
    correlations = np.corrcoef([*draws, draws[0] ** 2, draws[1] ** 2])
    assert np.abs(correlations - np.eye(5)).max() < 5 / math.sqrt(size)
    # The two halves of one draw share a radius: they and their squares are uncorrelated.
    first, second = draws[0][: size // 2], draws[0][size // 2 :]
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / math.sqrt(size / 2)
    assert abs(np.corrcoef(first**2, second**2)[0, 1]) < 5 / math.sqrt(size / 2)


@pytest.mark.parametrize("bits, radius", [(0, 9.4), (1, 9.3), (1 << 11, 8.5), ((1 << 64) - 1, 0.0)])
def test_the_tail_is_not_cut_off(bits, radius):
    """TensorFlow's float32 generator ends at sqrt(-2 ln 1e-7) = 5.678."""
    log_uniform = module.log_uniform(np.array([bits], np.uint64), KEY, "tail")
    assert np.sqrt(-2 * log_uniform[0]) >= radius
    assert np.isfinite(log_uniform[0])
    assert log_uniform[0] < 0


def test_frequency_of_large_values():
    # 1e8 draws are too many for a test. The radius alone is above r with probability e^-(r^2/2).
    bits = keyed_uint64(KEY, "many", 20_000_000)
    radius_squared = -2 * module.log_uniform(bits, KEY, "more")
    for bound in (5.0, 5.678):
        expected = len(bits) * math.exp(-(bound**2) / 2)
        seen = np.count_nonzero(radius_squared > bound**2)
        assert abs(seen - expected) < 5 * math.sqrt(expected) + 1
    assert np.count_nonzero(radius_squared > 5.678**2) > 0


def test_further_bits_continue_the_uniform():
    tiny = np.arange(1, 5, dtype=np.uint64)
    values = np.exp(module.log_uniform(tiny, KEY, "more")) * 2.0**64
    assert np.array_equal(np.floor(values), tiny)
    assert len(set(values - tiny)) == 4
