"""FedSubAvg's correction against NumPy: counts over rounds, factors, what is refused."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support.aggregation_fakes import assert_close, plain
from tff_keyboard.aggregators.guards.update_guard import UpdateGuardFactory
from tff_keyboard.aggregators.row_correction import (
    RowCorrectionFactory,
    limit_row_weight,
    row_weight_type,
)

WORDS = 5
NAMES = ("embedding", "kernel", "output_bias")
SHAPES = ((WORDS, 2), (2, 3), (WORDS,))
VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, shape) for shape in SHAPES])
WEIGHT_TYPE = row_weight_type(WORDS)


@functools.cache
def build(largest_factor=4.0, guarded=False):
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    factory = RowCorrectionFactory(mean, largest_factor=largest_factor, variable_names=NAMES)
    if guarded:
        limit = limit_row_weight(lambda weight: tf.minimum(weight, 10.0))
        factory = UpdateGuardFactory(factory, limit=limit)
    return factory.create(VALUE_TYPE, WEIGHT_TYPE)


def clients(seed, count):
    rng = np.random.default_rng(seed)
    values = [[rng.normal(size=s).astype(np.float32) for s in SHAPES] for _ in range(count)]
    return values, rng.integers(1, 6, count), rng.random((count, WORDS)) < 0.4


def weights_of(examples, touched):
    return [
        collections.OrderedDict(num_examples=np.float32(n), touched=np.float32(t))
        for n, t in zip(examples, touched, strict=True)
    ]


def numpy_rounds(rounds, largest):
    """Results of rounds of `(values, examples, touched)`."""
    participations, counts, results = 0, np.zeros(WORDS), []
    for values, examples, touched in rounds:
        examples = np.asarray(examples, np.float64)
        participations += np.sum(examples > 0)
        counts = counts + (touched * (examples > 0)[:, None]).sum(axis=0)
        factors = np.minimum(largest, participations / np.maximum(counts, 1))
        mean = [
            sum(n * v[i] for n, v in zip(examples, values, strict=True)) / examples.sum()
            for i in range(len(SHAPES))
        ]
        results.append([mean[0] * factors[:, None], mean[1], mean[2] * factors])
    return results


@pytest.mark.parametrize("largest", [1.0, 2.5, 100.0])
def test_three_rounds_match_numpy(largest):
    process = build(largest)
    rounds = [clients(seed, count) for seed, count in ((1, 4), (2, 1), (3, 6))]
    rounds[2][1][2] = 0  # one without examples, whose words do not count
    state = process.initialize()
    for (values, examples, touched), expected in zip(
        rounds, numpy_rounds(rounds, largest), strict=True
    ):
        output = process.next(state, values, weights_of(examples, touched))
        state = output.state
        assert_close(output.result, expected)


def test_factor_one_is_the_mean_itself():
    values, examples, touched = clients(4, 3)
    output = build(1.0).next(build(1.0).initialize(), values, weights_of(examples, touched))
    mean = tff.aggregators.MeanFactory().create(VALUE_TYPE, tff.TensorType(np.float32))
    expected = mean.next(mean.initialize(), values, [np.float32(n) for n in examples])
    for got, wanted in zip(output.result, expected.result, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_words_typed_by_all_clients_are_averaged():
    values, examples, _ = clients(5, 4)
    touched = np.ones((4, WORDS))
    output = build().next(build().initialize(), values, weights_of(examples, touched))
    assert_close(output.result, numpy_rounds([(values, examples, touched)], 1.0)[0])
    measured = plain(output.measurements)
    assert measured["rows/mean_factor"] == 1.0
    assert measured["rows/words_touched"] == WORDS


def test_rare_word_moves_as_far_as_with_its_clients_alone():
    values = [[np.zeros(s, np.float32) for s in SHAPES] for _ in range(4)]
    values[0][0][3] = [0.5, -0.25]
    touched = np.zeros((4, WORDS))
    touched[0, 3] = 1
    output = build(10.0).next(build(10.0).initialize(), values, weights_of([1] * 4, touched))
    np.testing.assert_allclose(output.result[0][3], [0.5, -0.25], rtol=1e-6)


def test_empty_round_gives_zeros_and_resumes_to_the_bit():
    process = build()
    empty = process.next(process.initialize(), [], [])
    assert all(not np.any(x) for x in empty.result)
    assert plain(empty.measurements)["rows/mean_factor"] == 1.0
    values, examples, touched = clients(6, 3)
    one = process.next(empty.state, values, weights_of(examples, touched))
    again = process.next(empty.state, values, weights_of(examples, touched))
    for a, b in zip(one.result, again.result, strict=True):
        np.testing.assert_array_equal(a, b)


def test_guarded_client_counts_a_word_once():
    values, examples, touched = clients(7, 3)
    lies = weights_of(examples, touched * 1000.0)
    honest = weights_of(examples, touched)
    process = build(guarded=True)
    lied = process.next(process.initialize(), values, lies)
    told = process.next(process.initialize(), values, honest)
    for a, b in zip(lied.result, told.result, strict=True):
        np.testing.assert_array_equal(a, b)
    values[1][0][:] = np.nan
    refused = process.next(process.initialize(), values, honest)
    assert refused.measurements["refused_non_finite"] == 1
    assert refused.state["counts"]["participations"] == 2


def test_rejects():
    mean = tff.aggregators.MeanFactory()
    with pytest.raises(ValueError, match="`largest_factor` must be >= 1"):
        RowCorrectionFactory(mean, largest_factor=0.5, variable_names=NAMES)
    with pytest.raises(ValueError, match="there are no rows to correct"):
        RowCorrectionFactory(mean, largest_factor=2.0, variable_names=("kernel",))
    factory = RowCorrectionFactory(mean, largest_factor=2.0, variable_names=NAMES)
    with pytest.raises(TypeError, match="touched_rows"):
        factory.create(VALUE_TYPE, tff.TensorType(np.float32))
    with pytest.raises(TypeError, match="touched_rows"):
        factory.create(VALUE_TYPE, row_weight_type(WORDS + 1))
