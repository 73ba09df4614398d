"""Arrays as one vector, and back."""

import numpy as np
import pytest

from tff_keyboard_fleet.wire import weights

SHAPES = [(2, 3), (), (4,)]
ARRAYS = [np.random.default_rng(0).normal(size=shape).astype(np.float32) for shape in SHAPES]


def test_there_and_back():
    data = weights.to_bytes(weights.to_vector(ARRAYS))
    assert len(data) == weights.BYTES_PER_NUMBER * 11
    for found, array in zip(
        weights.to_arrays(weights.from_bytes(data), SHAPES), ARRAYS, strict=True
    ):
        np.testing.assert_array_equal(found, array)


def test_bytes_are_little_endian():
    assert weights.to_bytes(np.array([1.0])) == bytes.fromhex("0000803f")


def test_another_length_is_refused():
    with pytest.raises(ValueError, match="11 numbers"):
        weights.to_arrays(np.zeros([12], np.float32), SHAPES)
    with pytest.raises(ValueError, match="multiple"):
        weights.from_bytes(b"123")
