"""Packing keeps every real position once, in the order of a recurrence; unpacking reverses it."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.models.layers.packing import pack, unpack


@examples(50)
@given(st.lists(st.integers(0, 6), max_size=8), st.integers(0, 2))
def test_pack_and_unpack(lengths, extra):
    time = max(lengths, default=0) + extra
    packing = pack(tf.constant(lengths, tf.int32), time)
    positions = [tuple(p) for p in packing.positions.numpy()]

    longest_first = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    expected = [(row, t) for t in range(time) for row in longest_first if t < lengths[row]]
    assert positions == expected
    counts = [sum(length > t for length in lengths) for t in range(max(lengths, default=0))]
    assert packing.counts.numpy().tolist() == counts
    assert packing.starts.numpy().tolist() == np.cumsum([0, *counts])[:-1].tolist()

    values = np.arange(1, 2 * len(expected) + 1, dtype=np.float32).reshape(-1, 2)
    unpacked = unpack(tf.constant(values), packing, len(lengths), time).numpy()
    for (row, t), value in zip(expected, values, strict=True):
        assert unpacked[row, t].tolist() == value.tolist()
    assert np.count_nonzero(unpacked) == values.size
