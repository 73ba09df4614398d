"""The defence against NumPy, over rounds, and against what it is for."""

import functools

import numpy as np
import pytest

from tests.aggregation_fakes import SHAPES, VALUE_TYPE, WEIGHT_TYPE, deltas, one_round, vector
from tff_keyboard.aggregation.bounded_trimmed_mean import BoundedTrimmedMeanFactory
from tff_keyboard.config.rule_config import BoundedTrimmedMean

ALL = range(len(SHAPES))


@functools.cache
def process(attackers):
    return BoundedTrimmedMeanFactory(BoundedTrimmedMean(attackers=attackers)).create(
        VALUE_TYPE, WEIGHT_TYPE
    )


def trimmed(rows, cut):
    cut = min(cut, (len(rows) - 1) // 2)
    return np.sort(rows, axis=0)[cut : len(rows) - cut].mean(axis=0)


def numpy_round(course, values, attackers):
    """The new course, the result, and who was kept."""
    flat = np.stack([vector(value, ALL) for value in values])
    norms = np.linalg.norm(flat, axis=1)
    radius = np.sort(norms)[(len(norms) - 1) // 2]
    rows = flat * np.minimum(1, radius / np.maximum(norms, 1e-300))[:, None]
    expected = int(np.ceil(attackers * len(values) - 1e-9))
    products = rows @ (0.9 * course + 0.1 * trimmed(rows, expected))
    median = np.sort(products)[len(products) // 2]
    kept = (products > 0) | (products >= median)
    opposed = np.sum(products < -median / 2) if median > 0 else 0
    result = trimmed(rows[kept], max(expected - opposed, 0))
    return 0.9 * course + 0.1 * result, result, kept


def flat_result(output):
    return vector(output.result, ALL)


def lengthened(values):
    """Deltas of different lengths."""
    return [[np.float32(k + 1) * x for x in value] for k, value in enumerate(values)]


@pytest.mark.parametrize("attackers", [0.1, 0.3, 0.49])
@pytest.mark.parametrize("clients", [1, 2, 5, 10])
def test_three_rounds_equal_numpy(attackers, clients):
    state, course, left_out = None, np.zeros(sum(int(np.prod(s)) for s in SHAPES)), 0
    for round_num in range(3):
        values = lengthened(deltas(round_num, clients))
        output = one_round(process(attackers), values, [1.0] * clients, state)
        course, expected, kept = numpy_round(course, values, attackers)
        np.testing.assert_allclose(flat_result(output), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(vector(output.state, ALL), course, rtol=1e-5, atol=1e-6)
        assert output.measurements["clients"] == clients
        assert output.measurements["off_course"] == np.sum(~kept)
        left_out += np.sum(~kept)
        state = output.state
    assert left_out or clients < 3


def common(seed, clients, noise=0.3):
    """Deltas that go one way, with noise; the way is the same in every round."""
    rng = np.random.default_rng(seed)
    ways = [np.random.default_rng(99).normal(size=shape) for shape in SHAPES]
    return [
        [(way + noise * rng.normal(size=way.shape)).astype(np.float32) for way in ways]
        for _ in range(clients)
    ]


def test_turned_deltas_are_left_out_and_cost_no_honest_ones():
    values = common(1, 10)
    values[:3] = [[-x for x in value] for value in values[:3]]
    output = one_round(process(0.3), values, [1.0] * 10)
    assert output.measurements["off_course"] == 3
    assert output.measurements["trimmed_clients"] == 3  # nothing is cut a second time
    flat = np.stack([vector(value, ALL) for value in values])
    norms = np.linalg.norm(flat, axis=1)
    rows = flat * np.minimum(1, np.sort(norms)[4] / norms)[:, None]
    np.testing.assert_allclose(flat_result(output), rows[3:].mean(axis=0), rtol=1e-4)


def after_rounds(rounds, clients=9):
    """The state after rounds that go the common way."""
    state = None
    for seed in range(rounds):
        state = one_round(process(0.3), common(seed, clients), [1.0] * clients, state=state).state
    return state


def test_the_course_of_earlier_rounds_tells_who_turns():
    state = after_rounds(10)
    values = common(12, 9)
    values[:4] = [[-x for x in value] for value in values[:4]]
    output = one_round(process(0.3), values, [1.0] * 9, state)
    assert output.measurements["off_course"] == 4
    assert np.dot(flat_result(output), vector(state, ALL)) > 0


def test_half_of_a_cohort_is_kept_when_the_course_turns():
    state = after_rounds(10)
    turned = [[-x for x in value] for value in common(12, 9)]
    output = one_round(process(0.3), turned, [1.0] * 9, state)
    assert output.measurements["off_course"] == 4
    assert np.dot(flat_result(output), vector(state, ALL)) < 0


def test_what_only_attackers_want_of_a_coordinate_is_trimmed():
    """As a backdoor: on course, no longer than the others, one coordinate moved."""
    values = common(3, 10, noise=0.0)
    for value in values[:3]:
        value[1][2] += 0.5
    output = one_round(process(0.3), values, [1.0] * 10)
    assert output.measurements["off_course"] == 0
    honest = values[5][1][2]
    assert abs(output.result[1][2] - honest) < 0.02 * abs(honest) + 1e-6


def test_a_boost_counts_for_no_more_than_an_honest_delta():
    values = deltas(3, 9)
    values[4] = [np.full_like(x, -1e30) for x in values[4]]
    output = one_round(process(0.3), values, [1.0] * 9)
    lengths = [np.linalg.norm(vector(v, ALL)) for k, v in enumerate(values) if k != 4]
    assert np.linalg.norm(flat_result(output)) <= max(lengths)


def test_nobody_leaves_zeros_and_the_course():
    state = after_rounds(1, clients=5)
    output = one_round(process(0.3), [], [], state)
    assert not np.any(flat_result(output))
    np.testing.assert_allclose(vector(output.state, ALL), 0.9 * vector(state, ALL), rtol=1e-6)
    ignored = one_round(process(0.3), common(1, 5), [0.0] * 5, state)
    assert not np.any(flat_result(ignored))
