"""Quantised uploads: within a step, right on average, repeatable, and counted."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aggregation_fakes import WEIGHT_TYPE, one_round
from tests.support.examples import examples
from tff_keyboard.config.sections.aggregation_config import UniformQuantization
from tff_keyboard.config.sections.rule_config import FedAtt
from tff_keyboard.federated.aggregation.compression import CompressedUploadFactory, quantize
from tff_keyboard.federated.aggregation.upload_size import encoded_bytes, raw_bytes
from tff_keyboard.federated.algorithms.fedatt.aggregator import FedAttFactory

VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, [60]), tff.TensorType(np.float32, [3])])


def clients(count=2):
    rng = np.random.default_rng(0)
    return [
        [rng.normal(size=60).astype(np.float32), rng.normal(size=3).astype(np.float32)]
        for _ in range(count)
    ]


@functools.cache
def build(inner=None, bits=4, seed=1):
    inner = inner or tff.aggregators.MeanFactory(no_nan_division=True)
    codec = UniformQuantization(bits=bits, threshold=10)
    factory = CompressedUploadFactory(inner, codec, seed=seed)
    return factory.create(VALUE_TYPE, WEIGHT_TYPE)


@examples(60)
@given(
    bits=st.integers(1, 16),
    log_scale=st.floats(-30, 37),
    offset=st.floats(-3, 3),
    seed=st.integers(0, 2**31),
)
def test_decoded_values_are_a_step_away_at_most(bits, log_scale, offset, seed):
    rng = np.random.default_rng(seed)
    x = np.float32(rng.uniform(-1, 1, 20) * 10.0**log_scale + offset * 10.0**log_scale)
    uniform = rng.uniform(size=20)
    decoded = quantize(tf.constant(x), bits, tf.constant(uniform)).numpy().astype(np.float64)
    x = x.astype(np.float64)
    low, high = x.min(), x.max()
    step = (high - low) / (2**bits - 1)
    np.testing.assert_allclose(decoded, x, atol=step * (1 + 1e-6) + 1e-6 * abs(high))
    if step > 0:
        expected = low + np.clip(np.floor((x - low) / step + uniform), 0, 2**bits - 1) * step
        np.testing.assert_allclose(
            decoded, expected, atol=step * 1e-3 + 1e-6 * abs(high), rtol=1e-6
        )


@pytest.mark.parametrize("bits", [1, 3, 8, 16])
def test_what_is_counted_is_a_range_and_packed_steps(bits):
    steps = np.zeros([60], ">u2").view(np.uint8)
    packed = np.packbits(np.unpackbits(steps).reshape(-1, 16)[:, -bits:])
    counted = encoded_bytes(tff.TensorType(np.float32, [60]), bits=bits, threshold=0)
    assert counted == len(packed) + 2 * np.dtype(np.float32).itemsize


def test_constant_tensors_survive():
    np.testing.assert_array_equal(quantize(tf.fill([5], 2.5), 3, tf.zeros([5])), np.full(5, 2.5))


def test_right_on_average():
    x = np.linspace(-1, 1, 11).astype(np.float32)
    uniform = np.random.default_rng(0).uniform(size=2000 * 11)
    draws = quantize(tf.constant(np.tile(x, 2000)), 2, tf.constant(uniform)).numpy()
    # A step is 2/3; the standard error of a mean of 2,000 is at most 0.0075.
    np.testing.assert_allclose(draws.reshape(2000, 11).mean(axis=0), x, atol=0.03)


def test_bytes_are_counted():
    output = one_round(build(), clients(3), [1.0] * 3)
    one = 60 * 4 // 8 + 8 + 3 * 4  # packed, with its range; the small tensor whole
    assert output.measurements["uploaded_bytes"] == 3 * one
    assert output.measurements["uncompressed_bytes"] == 3 * 4 * 63
    assert one_round(build(), [], []).measurements["uploaded_bytes"] == 0
    assert encoded_bytes(VALUE_TYPE, bits=3, threshold=10) == 23 + 8 + 12  # 180 bits are 22.5 bytes
    assert raw_bytes(VALUE_TYPE) == 252


def test_small_tensors_are_sent_whole_and_large_ones_nearly():
    values = clients(1)
    output = one_round(build(bits=12), values, [1.0])
    np.testing.assert_array_equal(output.result[1], values[0][1])
    spread = np.ptp(values[0][0])
    error = np.abs(output.result[0] - values[0][0])
    assert 0 < error.max() <= spread / (2**12 - 1) * 1.01


def test_a_rerun_repeats_the_bits_and_rounds_differ():
    process, values = build(), clients()
    one = one_round(process, values, [1.0, 1.0])
    again = one_round(process, values, [1.0, 1.0])
    np.testing.assert_array_equal(one.result[0], again.result[0])
    second = one_round(process, values, [1.0, 1.0], one.state)
    assert np.any(second.result[0] != one.result[0])


def test_fits_under_fedatt():
    values = clients()
    plain = FedAttFactory(FedAtt()).create(VALUE_TYPE, WEIGHT_TYPE)
    expected = one_round(plain, values, [1.0, 1.0])
    output = one_round(build(FedAttFactory(FedAtt()), bits=16), values, [1.0, 1.0])
    np.testing.assert_allclose(output.result[0], expected.result[0], atol=2e-4)
    assert output.measurements["inner"]["clients"] == 2


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="`seed` must be >= 0, got -1"):
        build(seed=-1)
