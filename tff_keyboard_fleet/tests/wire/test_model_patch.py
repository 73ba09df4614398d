"""Deltas of models: the new bytes exactly, in fewer bytes, and rejected errors."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.storage.errors import DataError
from tff_keyboard_fleet.wire import model_patch

OLD = np.random.default_rng(0).normal(size=20_000).astype("<f4")
NEW = (OLD + np.float32(1e-4) * np.random.default_rng(1).normal(size=20_000)).astype("<f4")
DELTA = model_patch.make(OLD.tobytes(), NEW.tobytes())


@examples(100)
@given(words=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))))
def test_any_bits_come_back(words):
    """The bits include NaN, infinities, minus zero and denormals."""
    old, new = (np.array([pair[i] for pair in words], "<u4").tobytes() for i in (0, 1))
    assert model_patch.apply(old, model_patch.make(old, new)) == new


def test_takes_fewer_bytes_than_the_model():
    assert model_patch.apply(OLD.tobytes(), DELTA) == NEW.tobytes()
    assert len(DELTA) < len(NEW.tobytes()) / 2
    assert len(model_patch.make(OLD.tobytes(), OLD.tobytes())) < 250


def test_neighbours_differ_by_one_across_zero():
    tiny = np.float32(1e-45)
    around = np.array([-tiny, -0.0, 0.0, tiny], "<f4")
    np.testing.assert_array_equal(np.diff(model_patch._ordered(around.tobytes()).astype(int)), 1)


@pytest.mark.parametrize(
    "old, delta, message",
    [
        (OLD, b"", "unknown format"),
        (OLD, b"tkd1" + bytes(40), "unknown format"),
        (NEW, DELTA, "is for another model"),
        (OLD, DELTA[:-1], "not 80000 when inflated"),
        (OLD, DELTA + b"x", "not 80000 when inflated"),
        (OLD, DELTA[:68] + b"\xff" * 50, "cannot be inflated"),
        (OLD, DELTA[:36] + hashlib.sha256(b"").digest() + DELTA[68:], "it gives another model"),
    ],
)
def test_other_deltas_are_refused(old, delta, message):
    with pytest.raises(DataError, match=message):
        model_patch.apply(old.tobytes(), delta)


def test_models_of_other_shapes_are_refused():
    for old, new in ((bytes(4), bytes(8)), (bytes(3), bytes(3))):
        with pytest.raises(DataError, match="have no difference"):
            model_patch.make(old, new)
