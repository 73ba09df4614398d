"""The defence against NumPy, and against what it is for."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tests.support.aggregation_fakes import (
    SHAPES,
    VALUE_TYPE,
    WEIGHT_TYPE,
    deltas,
    one_round,
    vector,
)
from tff_keyboard.aggregators.bounded_trimmed_mean import (
    RISK,
    BoundedTrimmedMeanFactory,
    max_attackers,
)

ALL = range(len(SHAPES))
BACKDOOR = (1, 2)  # tensor and place that only attackers move


@functools.cache
def process(attackers):
    return BoundedTrimmedMeanFactory(attackers).create(VALUE_TYPE, WEIGHT_TYPE)


def bounded(values):
    """[clients, numbers] no row longer than the median one."""
    flat = np.stack([vector(value, ALL) for value in values])
    norms = np.linalg.norm(flat, axis=1)
    radius = np.sort(norms)[(len(norms) - 1) // 2]
    return flat * np.minimum(1, radius / np.maximum(norms, 1e-300))[:, None]


def numpy_cut(clients, share):
    exceeded = sum(stats.binom.sf(k, clients, share) > RISK for k in range(clients))
    return min(exceeded, (clients - 1) // 2)


def flat_result(output):
    return vector(output.result, ALL)


def lengthened(values):
    """Deltas of different lengths."""
    return [[np.float32(k + 1) * x for x in value] for k, value in enumerate(values)]


@pytest.mark.parametrize("attackers", [0.01, 0.1, 0.49])
@pytest.mark.parametrize("clients", [1, 2, 5, 20])
def test_equals_numpy(attackers, clients):
    values = lengthened(deltas(clients, clients))
    output = one_round(process(attackers), values, [1.0] * clients)
    cut = numpy_cut(clients, attackers)
    expected = np.sort(bounded(values), axis=0)[cut : clients - cut].mean(axis=0)
    np.testing.assert_allclose(flat_result(output), expected, rtol=1e-5, atol=1e-6)
    assert output.measurements["clients"] == clients
    assert output.measurements["trimmed_clients"] == 2 * cut


def test_cut_is_exceeded_by_one_in_a_thousand_random_cohorts():
    for clients in (0, 1, 3, 16, 40, 100, 1000):
        for share in (0.001, 0.1, 0.3):
            found = int(max_attackers(tf.constant(clients), share))
            assert found == max(numpy_cut(clients, share), 0)
    assert [int(max_attackers(tf.constant(n), 0.1)) for n in (20, 40, 100)] == [7, 11, 20]


def late_in_training(seed, clients=20, attackers=3):
    """Deltas that hardly agree on a way; the first clients want one coordinate, together."""
    rng = np.random.default_rng(seed)
    ways = [np.random.default_rng(99).normal(size=shape) for shape in SHAPES]
    values = [
        [(0.15 * way + rng.normal(size=way.shape)).astype(np.float32) for way in ways]
        for _ in range(clients)
    ]
    tensor, place = BACKDOOR
    for k, value in enumerate(values):
        value[tensor][place] = 1.0 if k < attackers else 1e-3 * rng.normal()
    return values


def test_trimming_stays_when_honest_deltas_point_every_way():
    """A backdoor's coordinate keeps to the honest range in every round of a flat curve."""
    tensor, place = BACKDOOR
    state = None
    for seed in range(20):
        values = late_in_training(seed)
        output = one_round(process(0.15), values, [1.0] * len(values), state)
        honest = [abs(value[tensor][place]) for value in values[3:]]
        assert abs(output.result[tensor][place]) <= max(honest)
        state = output.state


def test_every_coordinate_stays_in_the_honest_range():
    """Nor when some decoys turn around while the others carry something."""
    values = deltas(7, 20)
    turned = [np.float32(-5) * np.mean([v[i] for v in values[7:]], axis=0) for i in ALL]
    values[:3] = [[np.asarray(x, np.float32) for x in turned]] * 3
    for value in values[3:7]:
        value[0][1, 1], value[2] = np.float32(9.0), np.float32(-9.0)
    output = one_round(process(0.1), values, [1.0] * 20)
    honest = bounded(values)[7:]
    assert np.all(flat_result(output) <= honest.max(axis=0) + 1e-6)
    assert np.all(flat_result(output) >= honest.min(axis=0) - 1e-6)


def with_unequal_norms(seed, clients):
    """Deltas with the value 1 in one coordinate, and norms that differ by a factor of 20."""
    rng = np.random.default_rng(seed)
    values = [
        [np.float32(rng.uniform(0.5, 10)) * x for x in value] for value in deltas(seed, clients)
    ]
    tensor, place = BACKDOOR
    for value in values:
        value[tensor][place] = 1.0
    return values


@pytest.mark.parametrize("attack", ["zeros", "long"])
def test_attackers_move_the_clip_norm_within_the_honest_norms(attack):
    """F4: the range of the honest values is kept for the clipped values, not for the sent ones."""
    tensor, place = BACKDOOR
    attackers, clients = 7, 20
    values = with_unequal_norms(5, clients)
    before = one_round(process(0.1), values, [1.0] * clients).result[tensor][place]
    for value in values[:attackers]:
        value[:] = [np.full_like(x, 0.0 if attack == "zeros" else 1e3) for x in value]
    output = one_round(process(0.1), values, [1.0] * clients)
    found = output.result[tensor][place]
    honest = np.sort([np.linalg.norm(vector(value, ALL)) for value in values[attackers:]])
    norms = np.linalg.norm(bounded(values)[attackers:], axis=1)
    radius = norms.max()
    assert honest[(clients + 1) // 2 - attackers - 1] * (1 - 1e-6) <= radius <= honest[-1]
    if attack == "zeros":
        assert found < 0.6 * before < before < 1  # every honest client sends exactly 1
        assert radius == pytest.approx(honest[(clients + 1) // 2 - attackers - 1])
    sent = np.stack([vector(value, ALL) for value in values[attackers:]])
    clipped = bounded(values)[attackers:]
    result = flat_result(output)
    assert np.all(result <= clipped.max(axis=0) + 1e-5)
    assert np.all(result >= clipped.min(axis=0) - 1e-5)
    assert np.all(result <= np.maximum(sent.max(axis=0), 0) + 1e-5)
    assert np.all(result >= np.minimum(sent.min(axis=0), 0) - 1e-5)


def test_one_attacker_more_than_is_trimmed_leaves_the_honest_range():
    values = [[np.float32(0.01) * x for x in value] for value in deltas(3, 20)]
    for value in values:
        value[0][0, 0] = 1.0
    for value, count in ((values, 7), (values, 8)):
        attacked = [[np.array(x) for x in one] for one in value]
        for one in attacked[:count]:
            one[0][0, 0] = -1.0
        output = one_round(process(0.1), attacked, [1.0] * 20)
        assert (output.result[0][0, 0] > 0.99) == (count == 7)


def test_excess_probability_is_that_of_the_trimmed_number():
    for attackers, clients, expected in [
        (0.3, 20, 48),
        (0.2, 20, 2.6),
        (0.1, 8, 5.0),
        (0.1, 5, 8.6),
    ]:
        factory = BoundedTrimmedMeanFactory(attackers)
        exact = stats.binom.sf(numpy_cut(clients, attackers), clients, attackers)
        assert factory.excess_probability(clients) == pytest.approx(exact, rel=1e-9)
        assert 1000 * exact == pytest.approx(expected, rel=0.02)
    assert BoundedTrimmedMeanFactory(0.1).excess_probability(20) <= RISK


def test_more_attackers_than_are_cut_count_for_no_more_than_median_deltas():
    values = deltas(3, 9)
    for k in range(4):
        values[k] = [np.full_like(x, -1e30) for x in values[k]]
    output = one_round(process(0.01), values, [1.0] * 9)
    assert output.measurements["trimmed_clients"] == 4
    lengths = np.sort([np.linalg.norm(vector(value, ALL)) for value in values])
    assert np.linalg.norm(flat_result(output)) <= lengths[4] * 9 / 5


def test_no_clients_give_zeros():
    assert not np.any(flat_result(one_round(process(0.3), [], [])))
    ignored = one_round(process(0.3), deltas(1, 5), [0.0] * 5)
    assert not np.any(flat_result(ignored))
    assert ignored.measurements["clients"] == 0
