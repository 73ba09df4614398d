"""The bound is never below the norm of any delta, and hardly above it."""

import math

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.aggregators.private import adaptive_clip
from tff_keyboard.aggregators.private.adaptive_clip import ROW, l2_norm_upper_bound


def check(tensors):
    bound = float(l2_norm_upper_bound([tf.constant(x) for x in tensors]))
    flat = np.concatenate([np.ravel(x) for x in tensors]).astype(np.float64)
    exact = np.linalg.norm(flat)
    assert exact <= bound
    assert bound <= exact * (1 + 2e-5) + 1.01e-14


@examples(40)
@given(
    sizes=st.lists(st.sampled_from([1, 2, 255, 256, 257, 1000, 30_001]), min_size=1, max_size=3),
    exponent=st.floats(-45, 37),
    spread=st.floats(0, 8),
    seed=st.integers(0, 2**31),
)
def test_between_the_norm_and_a_hair_above(sizes, exponent, spread, seed):
    rng = np.random.default_rng(seed)
    check(
        [
            (rng.normal(size=n) * 10.0 ** (exponent - spread * rng.random(n))).astype(np.float32)
            for n in sizes
        ]
    )


@pytest.mark.parametrize(
    "tensor",
    [
        np.zeros([3, 4]),
        np.array(2.5),  # a scalar
        np.full([1000], 3.4e38),  # overflows float32, not the exact way
        np.full([100_000], 1e-23),  # whose squares are 0 in float32
        np.full([1 << 16], np.nextafter(np.float32(1), np.float32(2))),  # rounds the same way
        np.full([1 << 16], 0.1),
    ],
    ids=["zeros", "scalar", "huge", "tiny", "above one", "a tenth"],
)
def test_corners(tensor):
    check([tensor.astype(np.float32)])


def test_the_slack_covers_any_order_of_summation():
    """Rows of n numbers: at most n u of the square, n / 2 u of the norm, and a root's rounding."""
    unit = 2.0**-24
    worst = 1 - math.sqrt(1 - ROW * unit / (1 - ROW * unit)) * (1 - 2 * unit)
    assert (1 - worst) * (1 + adaptive_clip.SLACK) > 1
    smallest = float(np.finfo(np.float32).tiny)
    assert math.sqrt(2 * 1e9 * smallest) < adaptive_clip.UNDERFLOW
