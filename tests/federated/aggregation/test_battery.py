"""What holds for every rule and every wrapper: one battery over all that a config can ask for.

A rule, a mechanism or a wrapper is tested here by being registered (`battery_cases.py`); what it
computes is tested beside it, against NumPy.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.federated.aggregation.battery_cases import CASES, CLIENTS, cohort, equal_weights
from tests.support.aggregation_fakes import SHAPES, VALUE_TYPE, assert_close, one_round, plain

# A mechanism, a wrapper and a rule of each kind; the others are slow tests.
QUICK = (
    "rule fedatt",
    "rule fedmed, topK",
    "privacy gaussian_adaptive, noisy",
    "protection adaptive",
    "compression uniform_quantization",
)
every_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)


def test_quick_ones_are_there():
    assert set(QUICK) <= CASES.keys()


@functools.cache
def bare(case):
    return case.build()


@functools.cache
def build(case):
    return case.with_noise(bare(case))


@functools.cache
def mergeable(case):
    """The parts that TFF hands to several workers; building them needs a single aggregation."""
    return tff.backends.native.compile_to_mergeable_comp_form(bare(case).next)


class InTwoParts:
    """A process whose rounds are merged from two parts."""

    def __init__(self, form):
        self.form = form

    def next(self, state, values, weights):
        halves = [(values[part], weights[part]) for part in (slice(0, 2), slice(2, None))]
        parts = [self.form.up_to_merge(state, *half) for half in halves]
        return self.form.after_merge((state, values, weights), self.form.merge(*parts))


def run(case, values, weights, state=None):
    return one_round(build(case), values, weights, state)


def assert_same_bits(a, b):
    for x, y in zip(a, b, strict=True):
        np.testing.assert_array_equal(x, y)


@every_case
def test_types(case):
    process = bare(case)
    signature = process.next.type_signature
    state = process.initialize.type_signature.result
    assert state.placement is tff.SERVER
    assert signature.parameter[0] == state
    assert signature.parameter[1] == tff.FederatedType(VALUE_TYPE, tff.CLIENTS)
    assert signature.parameter[2] == tff.FederatedType(case.weight_type, tff.CLIENTS)
    assert signature.result.state == state
    assert signature.result.result == tff.FederatedType(VALUE_TYPE, tff.SERVER)
    measurements = signature.result.measurements
    assert measurements.placement is tff.SERVER
    for leaf in tff.structure.flatten(measurements.member):
        assert isinstance(leaf, tff.TensorType)
        assert leaf.shape == ()  # the release of metrics makes a column of each
        assert not tf.as_dtype(leaf.dtype).is_complex


@every_case
def test_nobody(case):
    output = run(case, [], [])
    for result, shape in zip(output.result, SHAPES, strict=True):
        np.testing.assert_allclose(result, np.zeros(shape), atol=case.atol * case.is_noisy)
    assert all(np.all(np.isfinite(value)) for value in plain(output.measurements).values())
    again = run(case, *cohort(case), output.state)
    assert all(np.all(np.isfinite(x)) and np.any(x) for x in again.result)


@every_case
def test_one_client(case):
    values, weights = cohort(case, clients=1)
    output = run(case, values, weights)
    if case.counts_by_itself:
        assert_close(output.result, values[0], rtol=1e-5, atol=case.atol)
    else:  # the mean is over the report goal
        got, sent = (np.concatenate([np.ravel(x) for x in v]) for v in (output.result, values[0]))
        assert got @ sent > 0
        assert np.linalg.norm(got) <= np.linalg.norm(sent) * (1 + 1e-5) + case.atol


@every_case
def test_equal_clients_give_what_each_sent(case):
    values, _ = cohort(case, clients=1)
    output = run(case, values * CLIENTS, equal_weights(case))
    assert_close(output.result, values[0], rtol=1e-5, atol=case.atol)


@every_case
def test_the_order_of_clients_does_not_matter(case):
    values, weights = cohort(case)
    order = np.random.default_rng(0).permutation(CLIENTS)
    assert np.any(order != np.arange(CLIENTS))
    output = run(case, values, weights)
    shuffled = run(case, [values[k] for k in order], [weights[k] for k in order])
    assert_close(shuffled.result, output.result, rtol=1e-5, atol=1e-7)
    first, second = plain(output.measurements), plain(shuffled.measurements)
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(second[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@every_case
@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_a_broken_client_is_one_that_sent_nothing(case, poison):
    values, weights = cohort(case)
    nothing = [np.zeros_like(x) for x in values[2]]
    silent = run(
        case,
        [*values[:2], nothing, *values[3:]],
        [*weights[:2], case.no_weight(), *weights[3:]],
    )
    broken = [np.array(x) for x in values[2]]
    broken[1].flat[0] = poison
    output = run(case, [*values[:2], broken, *values[3:]], weights)
    assert_same_bits(output.result, silent.result)
    assert output.measurements["refused_non_finite"] == 1
    assert silent.measurements["refused_non_finite"] == 0


@every_case
def test_zero_weight_means_left_out(case):
    values, weights = cohort(case)
    output = run(case, values, [*weights[:2], case.no_weight(), *weights[3:]])
    if case.is_private:  # weights are ignored: who counts would be private
        expected = run(case, values, weights)
    else:
        expected = run(case, [*values[:2], *values[3:]], [*weights[:2], *weights[3:]])
    assert_close(output.result, expected.result, rtol=1e-6, atol=1e-7)
    for name, value in plain(output.measurements).items():
        if name.split("/")[-1] == "clients":  # of a rule that tells how many counted
            assert value == CLIENTS - 1


@every_case
def test_two_parts_merge_to_the_whole(case):
    values, weights = cohort(case)
    process, in_parts = build(case), InTwoParts(mergeable(case))
    if case.is_noisy:
        in_parts = process.around(in_parts)
    merged = in_parts.next(process.initialize(), values, weights)
    whole = run(case, values, weights)
    assert_close(merged.result, whole.result, rtol=1e-5, atol=1e-6)
    got, expected = plain(merged.measurements), plain(whole.measurements)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@every_case
def test_a_resumed_aggregation_repeats_the_bits(case):
    """From a copy of the state in plain arrays, as a checkpoint has it."""
    values, weights = cohort(case)
    state = run(case, values, weights).state
    straight = run(case, values, weights, state)
    saved = tf.nest.map_structure(lambda x: np.array(x, copy=True), state)
    resumed = run(case, values, weights, saved)
    assert_same_bits(resumed.result, straight.result)
    assert plain(resumed.measurements) == plain(straight.measurements)
    for a, b in zip(tf.nest.flatten(resumed.state), tf.nest.flatten(straight.state), strict=True):
        np.testing.assert_array_equal(a, b)
