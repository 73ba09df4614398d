"""Quantised uploads: the wire's arithmetic, right on average, repeatable, and counted."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aggregation_fakes import WEIGHT_TYPE, one_round
from tests.support.examples import examples
from tff_keyboard.aggregators import compression
from tff_keyboard.aggregators.compression import CompressedUploadFactory
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory
from tff_keyboard.aggregators.upload_size import raw_bytes
from tff_keyboard.storage import update_codec

VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, [60]), tff.TensorType(np.float32, [3])])


def clients(count=2):
    rng = np.random.default_rng(0)
    return [
        [rng.normal(size=60).astype(np.float32), rng.normal(size=3).astype(np.float32)]
        for _ in range(count)
    ]


def rms(value):
    return np.sqrt(np.mean(np.concatenate(value) ** 2))


@functools.cache
def build(inner=None, bits=4, seed=1):
    inner = inner or tff.aggregators.MeanFactory(no_nan_division=True)
    factory = CompressedUploadFactory(inner, bits, seed=seed)
    return factory.create(VALUE_TYPE, WEIGHT_TYPE)


@examples(60)
@given(
    bits=st.sampled_from(update_codec.BITS),
    log_scale=st.floats(-30, 37),
    seed=st.integers(0, 2**31),
)
def test_steps_are_those_of_the_wire(bits, log_scale, seed):
    rng = np.random.default_rng(seed)
    x = np.float32(rng.standard_cauchy(500).clip(-5, 5) * 10.0**log_scale).astype(np.float64)
    uniform = rng.random(500)
    step, steps = compression.quantize(tf.constant(x), bits, tf.constant(uniform))
    np.testing.assert_allclose(step, update_codec.step_size(x, bits), rtol=1e-12)
    expected = update_codec.quantise(x, float(step), uniform)
    np.testing.assert_array_equal(steps, expected)


def test_zeros_survive():
    step, steps = compression.quantize(tf.zeros([5], tf.float64), 3, tf.fill([5], 0.999))
    assert step == 0
    np.testing.assert_array_equal(steps, np.zeros(5))


@pytest.mark.parametrize("bits", update_codec.BITS)
def test_counted_bytes_are_about_those_of_the_wire(bits):
    rng = np.random.default_rng(bits)
    scale = np.where(rng.random([3000, 1]) < 0.03, 1e-2, 1e-4)  # few words typed
    x = np.float32(rng.normal(size=[3000, 96]) * scale).reshape(-1)
    whole = len(update_codec.encode(x, bits=bits, seed=0))
    _, steps = compression.quantize(tf.constant(x), bits, tf.constant(rng.random(len(x))))
    assert 0.8 < compression.counted_bytes(steps).numpy() / whole < 1.1


def test_right_on_average():
    """Clients of one round that hold the same numbers but one draw apart."""
    values = clients(1)[0]
    many = [[values[0], values[1] + np.float32(1e-6 * i)] for i in range(300)]
    result = one_round(build(bits=2), many, [1.0] * 300).result
    # A step is 2 rms; the standard error of a mean of 300 at most 0.06 of it.
    np.testing.assert_allclose(result[0], values[0], atol=4 * 0.06 * rms(values))


def test_bytes_are_counted():
    output = one_round(build(), clients(3), [1.0] * 3)
    assert output.measurements["uncompressed_bytes"] == 3 * 4 * 63
    # 63 numbers of about 3 bits, and a header, of each
    assert 3 * 40 < output.measurements["uploaded_bytes"] < 3 * (32 + 40)
    assert one_round(build(), [], []).measurements["uploaded_bytes"] == 0
    assert raw_bytes(VALUE_TYPE) == 252


def test_numbers_arrive_within_a_step():
    values = clients(1)
    output = one_round(build(), values, [1.0])
    errors = [np.abs(a - b).max() for a, b in zip(output.result, values[0], strict=True)]
    assert min(errors) > 0
    assert max(errors) <= 0.5 * rms(values[0]) * 1.01


def test_a_rerun_repeats_the_bits_and_rounds_differ():
    process, values = build(), clients()
    one = one_round(process, values, [1.0, 1.0])
    again = one_round(process, values, [1.0, 1.0])
    np.testing.assert_array_equal(one.result[0], again.result[0])
    second = one_round(process, values, [1.0, 1.0], one.state)
    assert np.any(second.result[0] != one.result[0])


def test_fits_under_fedatt():
    values = clients()
    plain = FedAttFactory().create(VALUE_TYPE, WEIGHT_TYPE)
    expected = one_round(plain, values, [1.0, 1.0])
    output = one_round(build(FedAttFactory()), values, [1.0, 1.0])
    np.testing.assert_allclose(output.result[0], expected.result[0], atol=0.5 * rms(values[0]))
    assert output.measurements["inner"]["clients"] == 2


def test_finite_values_stay_finite():
    most = np.finfo(np.float32).max
    value = [np.full(60, most), np.full(3, most)]
    value[0][::2] *= np.float32(0.8)  # random rounding goes up to a step beyond
    result = one_round(build(), [value], [1.0]).result
    assert all(np.isfinite(part).all() for part in result)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="`seed` must be >= 0, got -1"):
        build(seed=-1)
