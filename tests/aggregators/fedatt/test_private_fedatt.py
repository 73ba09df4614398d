"""Private FedAtt: the bound holds for adversaries, the noise is as proved, the limit is FedAtt."""

import functools
import math

import dp_accounting
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.support.aggregation_fakes import (
    GROUPS,
    LAYERS,
    VALUE_TYPE,
    WEIGHT_TYPE,
    assert_close,
    deltas,
    in_float64,
    one_round,
    vector,
)
from tests.support.examples import examples
from tests.support.noise_fakes import noised
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory
from tff_keyboard.aggregators.fedatt.private_fedatt import (
    PrivateFedAttFactory,
    attention_record,
    record_sensitivity,
)
from tff_keyboard.aggregators.layers import Layer

RECORD_LAYERS = (Layer("first", (0, 2)), Layer("second", (1,)))
ANY_FLOAT = st.floats(width=32)  # infinities, NaN, denormals
ADVERSARY = st.tuples(
    arrays.arrays(np.float32, (2, 2), elements=ANY_FLOAT),
    arrays.arrays(np.float32, (3,), elements=ANY_FLOAT),
    arrays.arrays(np.float32, (), elements=ANY_FLOAT),
)
MECHANISM = st.fixed_dictionaries(
    {
        "layer_clip_norm": st.floats(1e-4, 1e4),
        "attention_bound": st.floats(0, 8),
        "denominator_scale": st.floats(0.05, 20),
    }
)


def record_vector(value, **mechanism):
    record = attention_record(list(value), RECORD_LAYERS, **mechanism)
    flat = [np.ravel(np.asarray(x, np.float64)) for x in tf.nest.flatten(record)]
    return np.concatenate(flat)


def numpy_private_fedatt(values, clip_norm, bound, layers=LAYERS, floor=1.0):
    result = [None] * len(values[0])
    totals = []
    for positions in layers:
        numerators, total = {i: 0.0 for i in positions}, 0.0
        for value in values:
            norm = np.linalg.norm(vector(value, positions))
            weight = np.exp(bound * (min(norm / clip_norm, 1) - 1))
            for i in positions:
                numerators[i] += weight * value[i] * min(1, clip_norm / norm if norm else 1)
            total += weight
        totals.append(total)
        for i in positions:
            result[i] = numerators[i] / max(total, floor)
    return result, totals


@functools.cache
def process(noise=0.0, clip_norm=1.5, bound=1.3, scale=1.0, floor=1.0, grouped=False):
    factory = PrivateFedAttFactory(
        attention_bound=bound,
        denominator_floor=floor,
        layer_groups=GROUPS if grouped else {},
        noise_multiplier=noise,
        layer_clip_norm=clip_norm,
        denominator_scale=scale,
    )
    return noised(factory.create(VALUE_TYPE))


def run(aggregation, values, state=None):
    return aggregation.next(aggregation.initialize() if state is None else state, values)


@examples(300)
@given(adversary=ADVERSARY, mechanism=MECHANISM)
def test_no_delta_makes_a_record_longer_than_the_sensitivity(adversary, mechanism):
    sensitivity = record_sensitivity(len(RECORD_LAYERS), mechanism["denominator_scale"])
    # Rounding to float32 may pass the bound by parts in a million; the query clips that off.
    assert np.linalg.norm(record_vector(adversary, **mechanism)) <= sensitivity * (1 + 1e-6)


@examples(200)
@given(adversary=ADVERSARY, mechanism=MECHANISM)
def test_attention_lies_between_1_and_e_to_the_bound(adversary, mechanism):
    record = attention_record(list(adversary), RECORD_LAYERS, **mechanism)
    weights = np.asarray(record["denominator"], np.float64) / mechanism["denominator_scale"]
    weights = weights * math.exp(mechanism["attention_bound"])
    assert np.all(weights >= 1 - 1e-5)
    assert np.all(weights <= math.exp(mechanism["attention_bound"]) * (1 + 1e-5))


def test_the_bound_is_reached():
    """S is the sensitivity, not just a bound on it: layers at or beyond their clip norms."""
    mechanism = {"layer_clip_norm": 0.3, "attention_bound": 2.0, "denominator_scale": 0.7}
    value = [np.full((2, 2), 5, np.float32), np.full(3, -9, np.float32), np.float32(1)]
    got = np.linalg.norm(record_vector(value, **mechanism))
    assert got == pytest.approx(record_sensitivity(2, 0.7), rel=1e-6)


@examples(25)
@given(adversary=st.lists(ANY_FLOAT, min_size=11, max_size=11))
def test_adding_one_adversary_moves_the_released_sum_by_at_most_the_sensitivity(adversary):
    """End to end, through clipping query and sum: neighbouring cohorts, with and without one."""
    value = [
        np.array(adversary[:6], np.float32).reshape(3, 2),
        np.array(adversary[6:10], np.float32),
        np.float32(adversary[10]),
    ]
    query_sum = _released_sum([*deltas(0, 3), value]) - _released_sum(deltas(0, 3))
    assert np.linalg.norm(query_sum) <= record_sensitivity(3, 1.0) * (1 + 1e-5)


@functools.cache
def _sum_process():
    """The mechanism up to its release: floor so large that the ratio is a multiple of the sum."""
    return process(floor=1e6)


def _released_sum(values):
    output = run(_sum_process(), values)
    numerators = [np.ravel(np.asarray(x, np.float64)) * 1e6 / 1.5 for x in output.result]
    totals = list(output.measurements["noisy_attention_total"].values())
    return np.concatenate([*numerators, np.asarray(totals, np.float64)])


@pytest.mark.parametrize(
    "grouped, scale",
    [
        (False, 1.0),
        (True, 0.2),
        pytest.param(False, 0.2, marks=pytest.mark.slow),
        pytest.param(True, 1.0, marks=pytest.mark.slow),
    ],
)
def test_without_noise_it_is_the_formula(grouped, scale):
    values = deltas(1, 6)
    layers = [(0, 2), (1,)] if grouped else LAYERS
    output = run(process(scale=scale, grouped=grouped), values)
    expected, totals = numpy_private_fedatt(in_float64(values), 1.5, 1.3, layers)
    assert_close(output.result, expected)
    measured = list(output.measurements["noisy_attention_total"].values())
    np.testing.assert_allclose(measured, totals, rtol=1e-5)


def test_equals_fedatt_when_nothing_clips():
    """Temperature C / B, no noise, floor below every denominator."""
    values = deltas(2, 7)
    clip_norm, bound = 20.0, 15.0
    private = run(process(clip_norm=clip_norm, bound=bound, floor=1e-30), values)
    fedatt = FedAttFactory(temperature=clip_norm / bound).create(VALUE_TYPE, WEIGHT_TYPE)
    assert_close(private.result, one_round(fedatt, values, [1.0] * 7).result)


def test_bound_zero_is_the_mean_of_clipped_layers():
    values = deltas(3, 4)
    output = run(process(bound=0.0), values)
    expected, totals = numpy_private_fedatt(in_float64(values), 1.5, 0.0)
    assert_close(output.result, expected)
    assert totals == [4.0] * 3


@pytest.mark.slow
def test_noise_is_z_times_the_sensitivity_on_every_part():
    noise, scale, rounds = 0.8, 0.5, 60
    aggregation = process(noise, 1.5, 1.3, scale, floor=1e6)
    sensitivity = record_sensitivity(3, scale)
    values, state, numerators, totals = deltas(4, 3), None, [], []
    for _ in range(rounds):
        output = run(aggregation, values, state)
        state = output.state
        numerators.append(np.ravel(output.result[0]) * 1e6 / 1.5)
        totals.append(list(output.measurements["noisy_attention_total"].values()))
    numerators, totals = np.array(numerators), np.array(totals)
    # 360 and 180 draws: standard errors of 3.7 % and 5.3 %; four of them.
    spread = np.sqrt(np.mean(np.var(numerators, axis=0, ddof=1)))
    assert spread == pytest.approx(noise * sensitivity, rel=0.15)
    spread = np.sqrt(np.mean(np.var(totals, axis=0, ddof=1)))
    assert spread == pytest.approx(noise * sensitivity / scale, rel=0.21)


def test_the_event_is_one_gaussian():
    state = run(process(0.75, 1.5, 1.3, 0.5, floor=1e6), deltas(4, 3)).state
    extract = tff.aggregators.differential_privacy.extract_dp_event_from_state
    assert extract(state) == dp_accounting.GaussianDpEvent(0.75)


def test_noise_alone_never_divides_by_less_than_the_floor():
    aggregation = process(5.0)
    state = None
    for _ in range(5):
        output = run(aggregation, [], state)
        state = output.state
        sensitivity = record_sensitivity(3, 1.0)
        assert all(np.all(np.abs(x) <= 1.5 * 6 * 5.0 * sensitivity) for x in output.result)


def test_a_broken_client_counts_as_zeros():
    values = deltas(5, 3)
    zeros = [np.zeros_like(x) for x in values[0]]
    broken = [np.full_like(x, np.nan) for x in values[0]]
    assert_close(run(process(), [*values, broken]).result, run(process(), [*values, zeros]).result)


@pytest.mark.parametrize(
    "name, value, rule",
    [
        ("layer_clip_norm", 0.0, "> 0"),
        ("denominator_scale", -1.0, "> 0"),
        ("noise_multiplier", -0.1, ">= 0"),
    ],
)
def test_wrong_arguments_are_named(name, value, rule):
    arguments = {"noise_multiplier": 1.0, "layer_clip_norm": 1.0} | {name: value}
    with pytest.raises(ValueError, match=f"`{name}` must be {rule}"):
        PrivateFedAttFactory(**arguments)
