"""Expected effort against simulated typists, and its limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tff_keyboard.evaluation.metrics import keystrokes, typists
from tff_keyboard.evaluation.metrics.typists import TYPISTS, Typist


def simulated(typed, length, rank, typist, rng):
    """Keys and seconds of one person typing one word once."""
    keys = seconds = 0.0
    anywhere = sum(typist.accepts) / len(typist.accepts)
    for at in range(length):
        if rng.random() < typist.looks:
            seconds += typist.look_seconds
            place = typist.accepts[rank] if typed == at == 0 else anywhere
            if at >= typed and rng.random() < place:
                break
        keys += 1
        if rng.random() < typist.errors:
            keys += 2
    keys += 1  # the tap, or the space
    return keys, seconds + keys * typist.key_seconds


@pytest.mark.parametrize("name", TYPISTS)
@pytest.mark.parametrize("typed, length, rank", [(0, 5, 1), (0, 1, 2), (2, 6, 9), (4, 4, 9)])
def test_expectations_are_those_of_many_people(name, typed, length, rank):
    rng = np.random.default_rng(0)
    people = [simulated(typed, length, rank, TYPISTS[name], rng) for _ in range(20_000)]
    one = [np.array([value]) for value in (typed, length, rank)]
    effort = typists.with_strip(*one, TYPISTS[name])
    for found, column in zip(effort, np.array(people).T, strict=True):
        margin = 5 * column.std() / np.sqrt(len(column)) + 1e-9
        assert found[0] == pytest.approx(column.mean(), abs=margin)


LENGTHS = st.integers(0, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None)
@given(st.lists(LENGTHS, min_size=1, max_size=20), st.integers(0, 5))
def test_limits(words, rank):
    typed, lengths = (np.array(column) for column in zip(*words, strict=True))
    ranks = np.full(len(words), rank)
    eager = Typist(looks=1.0, look_seconds=0.0, accepts=(1.0, 1.0, 1.0), errors=0.0)
    effort = typists.with_strip(typed, lengths, ranks, eager)
    counted = keystrokes.keystrokes_with_selection(typed, lengths)
    spaces = (typed == lengths) & (lengths > 0)  # a tap brings its space along
    np.testing.assert_allclose(effort.keys, counted + spaces)
    blind = Typist(looks=0.0, look_seconds=9.0, accepts=(1.0, 1.0, 1.0))
    without = typists.plain(lengths, blind)
    for ours, plain in zip(typists.with_strip(typed, lengths, ranks, blind), without, strict=True):
        np.testing.assert_allclose(ours, plain)
    assert not typists.plain(np.array([0]), blind).keys.any()


def test_a_strip_that_never_helps_costs_its_looks():
    lengths = np.array([5])
    typist = TYPISTS["typical"]
    effort = typists.with_strip(lengths, lengths, np.array([9]), typist)
    plain = typists.plain(lengths, typist)
    assert effort.keys == pytest.approx(plain.keys)
    assert effort.seconds - plain.seconds == pytest.approx(5 * 0.5 * 0.25)
