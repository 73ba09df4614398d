"""The window is the end of the text, never longer than training, and moves in steps."""

import itertools

import hypothesis
from hypothesis import strategies as st

from tflite_export.runtime.keyboard_predictor import last_ids


@hypothesis.given(length=st.integers(2, 70), count=st.integers(1, 400))
def test_window(length, count):
    ids = list(range(count))
    fed = last_ids(ids, length)
    assert fed == ids[count - len(fed) :]
    assert len(fed) <= length
    if count <= length:
        assert fed == ids
    else:
        assert len(fed) > length - length // 2  # half of a training sequence of context at least
    assert last_ids(ids, None) == ids


@hypothesis.given(length=st.integers(4, 70))
def test_the_begin_moves_once_in_half_a_length(length):
    starts = [count - len(last_ids(list(range(count)), length)) for count in range(1, 10 * length)]
    assert sorted(starts) == starts
    moves = sum(a != b for a, b in itertools.pairwise(starts))
    assert moves <= 10 * length // (length // 2)
