import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

from tff_keyboard.data import generators

WORDS = st.integers(0, 2**32 - 1)
# Short and long seeds: one word, two words, and more words than the pool of four.
SEEDS = st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**100)), max_size=4)


@hypothesis.given(before=SEEDS, numbers=st.lists(WORDS, max_size=4), after=SEEDS)
@hypothesis.example(before=[], numbers=[0, 2**32 - 1], after=[])
@hypothesis.settings(deadline=None)
def test_each_generator_equals_default_rng(before, numbers, after):
    found = list(generators.generators(before, np.array(numbers, np.int64), after))
    assert len(found) == len(numbers)
    for number, rng in zip(numbers, found, strict=True):
        alone = np.random.default_rng([*before, number, *after])
        assert rng.bit_generator.state == alone.bit_generator.state
        assert rng.choice(20, 7, replace=False).tolist() == (
            alone.choice(20, 7, replace=False).tolist()
        )


@pytest.mark.parametrize(
    "before, numbers, says",
    [([1], [-1], "must be in"), ([1], [2**32], "must be in"), ([-1], [1], "got -1")],
)
def test_rejects(before, numbers, says):
    with pytest.raises(ValueError, match=says):
        list(generators.generators(before, np.array(numbers)))
