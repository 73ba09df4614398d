import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from tests.support.examples import examples
from tff_keyboard.aggregators.guards.update_guard import all_finite

FLOATS = st.floats(width=32, allow_nan=True, allow_infinity=True)


@given(st.lists(st_numpy.arrays(np.float32, st.integers(0, 5), elements=FLOATS), max_size=3))
@examples(200)
def test_equals_a_check_of_each_number(arrays):
    expected = all(np.isfinite(array).all() for array in arrays)
    assert bool(all_finite([tf.constant(array) for array in arrays])) == expected


@pytest.mark.parametrize("value, finite", [(3e38, True), (np.inf, False), (np.nan, False)])
def test_squares_that_overflow_are_finite_and_infinities_are_not(value, finite):
    huge = tf.constant([1.0, value, -3e38])
    in_a_graph = tf.function(lambda: all_finite([tf.constant([1.0]), huge]))
    assert bool(in_a_graph()) == finite


def test_integers_are_finite():
    assert bool(all_finite([tf.constant([2**31 - 1])]))
