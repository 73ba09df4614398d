"""The upload codec: its arithmetic, an unbiased result, small size, and robust decoding."""

import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.storage import update_codec
from tff_keyboard.storage.errors import DataError
from tff_keyboard.storage.update_codec import decode, encode

HEAD = update_codec.HEADER_BYTES
# The encoding of [0, 1, -1, 0.5, 9], which every device must decode to these numbers.
GOLDEN = "746b71310200000001000000000000005c085f2a5f52204005000000000000006362520000"


def rows_like_a_word_table(seed=0, rows=2000, typed=60, width=96):
    """Returns an update like a client's: large in few rows of a word table, else small."""
    rng = np.random.default_rng(seed)
    scale = np.full([rows, 1], 1e-4)
    scale[rng.choice(rows, typed, replace=False)] = 1e-2
    return np.float32(rng.normal(size=[rows, width]) * scale).reshape(-1)


@examples(100)
@given(
    size=st.integers(0, 9000),
    bits=st.sampled_from(update_codec.BITS),
    seed=st.integers(0, 2**64 - 1),
    log_scale=st.floats(-30, 30),
    spikes=st.integers(0, 3),
)
def test_error_is_at_most_one_step(size, bits, seed, log_scale, spikes):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=size) * 10.0**log_scale
    x[: min(spikes, size)] *= 1000  # far beyond what 2^bits steps span
    x = np.float32(x)
    data = encode(x, bits=bits, seed=seed)
    back = decode(data, size).astype(np.float64)
    step = 8 / 2**bits * np.sqrt(np.mean(np.float64(x) ** 2)) if size else 0.0
    np.testing.assert_allclose(back, x, rtol=1e-6, atol=step * (1 + 1e-6))
    np.testing.assert_array_equal(back[x == 0], 0)
    assert encode(x, bits=bits, seed=seed) == data  # a retry sends the same bytes


def test_matches_numpy():
    """Computes the formula in NumPy: floor(x / step + u) times the step."""
    x = rows_like_a_word_table()[:5000]
    expected = x.astype(np.float64)
    step = 8 / 2**3 * np.sqrt(np.mean(expected**2))
    uniform = np.random.default_rng(7).random(len(expected))
    expected = np.floor(expected / step + uniform) * step
    actual = decode(encode(x, bits=3, seed=7), 5000)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-9)


def test_unbiased():
    x = np.float32(np.random.default_rng(0).normal(size=500))
    draws = [decode(encode(x, bits=2, seed=s), 500) for s in range(600)]
    # A step is 2 rms, and an error has a standard deviation of at most half a step: 0.041 for the
    # mean of 600. The largest of 500 such means is at four standard deviations.
    scale = np.sqrt(np.mean(x**2))
    np.testing.assert_allclose(np.mean(draws, axis=0), x, atol=0.17 * scale)
    assert np.std(draws, axis=0).max() > 0.1  # rounding is random


@pytest.mark.parametrize("bits, times", [(2, 50), (3, 35), (4, 25)])
def test_bytes_follow_the_entropy(bits, times):
    x = rows_like_a_word_table()
    assert x.nbytes / len(encode(x, bits=bits, seed=1)) > times


def test_golden_bytes():
    x = np.array([0, 1, -1, 0.5, 9], np.float32)
    assert encode(x, bits=2, seed=1).hex() == GOLDEN
    step = 2 * np.sqrt(np.mean(x.astype(np.float64) ** 2))
    steps = np.floor(x / step + np.random.default_rng(1).random(5))
    np.testing.assert_allclose(decode(bytes.fromhex(GOLDEN), 5), steps * step, rtol=1e-6)


def test_a_delta_of_zeros_and_an_empty_one():
    for size in (0, 1, 5000):
        data = encode(np.zeros(size, np.float32), bits=4, seed=0)
        assert len(data) < HEAD + 30
        np.testing.assert_array_equal(decode(data, size), np.zeros(size))


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"bits": 5}, r"`bits` must be one of \(2, 3, 4\), got 5"),
        ({"seed": -1}, "`seed` must be in"),
        ({"vector": np.array([1, np.nan], np.float32)}, "finite"),
        ({"vector": np.zeros([2, 2], np.float32)}, "one vector"),
    ],
)
def test_rejects_vectors_that_cannot_be_encoded(arguments, message):
    whole = {"vector": np.ones(3, np.float32), "bits": 2, "seed": 1, **arguments}
    with pytest.raises(DataError, match=message):
        encode(whole.pop("vector"), **whole)


def forged(size=100, *, magic=b"tkq1", step=1.0, numbers=None, escapes=0, stream=None):
    stream = bytes(size // 2) if stream is None else stream
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = struct.pack(
        "<4sBxxxQdII", magic, 4, 0, step, size if numbers is None else numbers, escapes
    )
    return head + deflate.compress(stream) + deflate.flush()


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "at least 32 bytes, got 0"),
        (forged(magic=b"tkq2"), "another codec"),
        (forged(step=np.nan), "another codec"),
        (forged(step=np.inf), "another codec"),
        (forged(step=-1.0), "another codec"),
        (forged(numbers=101), "must have 100 numbers, got 101"),
        (forged(escapes=101), "101 escapes in 100 numbers"),
        (forged(escapes=1), "not 54 when inflated"),
        (forged(escapes=1, stream=bytes(54)), "has 0 escapes, but its header says 1"),
        (forged(stream=b"\xff" + bytes(49)), "has 2 escapes, but its header says 0"),
        (forged(stream=b"\x20" * 50, step=1e308), "exceed float32"),
        (forged(stream=b"\xf0" + bytes(49) + b"\xff" * 4, step=1e300, escapes=1), "exceed float32"),
        (forged()[:-1], "not 50 when inflated"),
        (forged() + b"x", "not 50 when inflated"),
        (forged(stream=bytes(51)), "not 50 when inflated"),
        (forged()[:HEAD] + b"\xff" * 9, "cannot be inflated"),
    ],
)
def test_malicious_bytes_are_rejected(data, message):
    with pytest.raises(DataError, match=message):
        decode(data, 100)


def test_decompression_bomb_takes_no_more_memory_than_an_update():
    bomb = forged(100_000, stream=bytes(200_000_000))
    tracemalloc.start()
    with pytest.raises(DataError):
        decode(bomb, 100_000)
    assert tracemalloc.get_traced_memory()[1] < 100_000 * 20 + len(bomb) * 3
    tracemalloc.stop()


@examples(300)
@given(data=st.data())
def test_damaged_bytes_are_rejected_or_decoded(data):
    whole = encode(rows_like_a_word_table()[:2000], bits=4, seed=3)
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    try:
        back = decode(bytes(damaged[:cut] if cut % 3 == 0 else damaged), 2000)
    except DataError:
        return
    assert back.shape == (2000,)
    assert back.dtype == np.float32
    assert np.isfinite(back).all()
