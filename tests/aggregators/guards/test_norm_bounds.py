"""Zeroing and clipping against NumPy, and against TFF's: same states, measurements, results."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support.aggregation_fakes import (
    VALUE_TYPE,
    WEIGHT_TYPE,
    assert_close,
    deltas,
    in_float64,
    one_round,
    plain,
)
from tff_keyboard.aggregators.guards import norm_bounds

KINDS = {
    "zeroing": (norm_bounds.zeroing_factory, tff.aggregators.zeroing_factory),
    "clipping": (norm_bounds.clipping_factory, tff.aggregators.clipping_factory),
}
WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0]


@functools.cache
def process(factory, bound):
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    return factory(bound, mean).create(VALUE_TYPE, WEIGHT_TYPE)


def adaptive():
    return tff.aggregators.PrivateQuantileEstimationProcess.no_noise(
        initial_estimate=1.0, target_quantile=0.5, learning_rate=0.7
    )


def numpy_bounded(kind, value, bound):
    flat = np.concatenate([np.ravel(x) for x in value])
    if kind == "zeroing":
        factor = 0.0 if np.abs(flat).max() > bound else 1.0
    else:
        factor = min(1.0, bound / np.linalg.norm(flat))
    return [factor * x for x in value], factor < 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bound", [0.1, 2.0, 1e6], ids=["all", "some", "none"])
def test_matches_numpy(kind, bound):
    values = deltas(0, 5)
    output = one_round(process(KINDS[kind][0], bound), values, WEIGHTS)
    bounded = [numpy_bounded(kind, value, bound) for value in in_float64(values)]
    expected = [
        sum(w * value[i] for w, (value, _) in zip(WEIGHTS, bounded, strict=True)) / sum(WEIGHTS)
        for i in range(len(values[0]))
    ]
    assert_close(output.result, expected)
    counts = {"zeroing": "zeroed_count", "clipping": "clipped_count"}
    assert output.measurements[counts[kind]] == sum(was for _, was in bounded)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_rounds_and_states_are_those_of_tffs_own(kind):
    ours, theirs = (process(factory, adaptive()) for factory in KINDS[kind])
    assert ours.initialize.type_signature == theirs.initialize.type_signature
    assert ours.next.type_signature == theirs.next.type_signature
    state = theirs.initialize()
    for round_num in range(4):
        values = deltas(round_num, 5, scale=0.5)
        got, expected = (one_round(p, values, WEIGHTS, state) for p in (ours, theirs))
        assert_close(got.result, expected.result)
        assert plain(got.measurements) == pytest.approx(plain(expected.measurements))
        state = expected.state  # a checkpoint of TFF's goes on with ours


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_stay_and_huge_deltas_vanish(kind):
    huge = [np.full(np.shape(x), 3e38, np.float32) for x in deltas(0, 1)[0]]
    nothing = [np.zeros(np.shape(x), np.float32) for x in huge]
    for value in (huge, nothing):
        output = one_round(process(KINDS[kind][0], 2.0), [value], [1.0])
        assert_close(output.result, nothing)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("nan")])
def test_bound_must_be_positive(bound):
    with pytest.raises(ValueError, match="`bound` must be"):
        norm_bounds.clipping_factory(bound, tff.aggregators.MeanFactory())


def test_integers_are_refused():
    mean = tff.aggregators.MeanFactory()
    with pytest.raises(TypeError, match="floating-point"):
        norm_bounds.clipping_factory(1.0, mean).create(tff.TensorType(np.int32), WEIGHT_TYPE)
