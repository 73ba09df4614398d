import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.examples import examples
from tflite_export.graphs.quantization import (
    pack_int4,
    quantize_rows,
    quantize_rows_int4,
    quantize_tensor,
)

MATRIX = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
# Rows of very different size, as SGD leaves them: rare words stay small.
UNEVEN = MATRIX * np.geomspace(0.01, 3.0, 200)[:, np.newaxis].astype(np.float32)

matrices = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=12),
    elements=st.floats(-1e6, 1e6, width=32),
)


@hypothesis.given(matrices)
@examples(100)
def test_tensor_error_is_at_most_half_a_step(matrix):
    quantized = quantize_tensor(matrix)
    error = np.abs(quantized.dequantized().astype(np.float64) - matrix)
    assert error.max() <= 0.5 * quantized.scale * (1 + 1e-3)
    assert quantized.values.min() >= -127


@hypothesis.given(matrices)
@examples(100)
def test_row_error_is_at_most_half_a_step_of_its_row(matrix):
    quantized = quantize_rows(matrix)
    error = np.abs(quantized.dequantized().astype(np.float64) - matrix).max(axis=1)
    assert (error <= 0.5 * quantized.scales() * (1 + 1e-3)).all()
    assert quantized.codes.min() >= 1
    # A row's step is its own, up to the coarseness of a one-byte code.
    own_step = np.abs(matrix).max(axis=1) / 127
    assert (quantized.scales() <= (own_step + quantized.base) * (1 + 1e-3)).all()


def test_small_rows_are_rounded_finer_by_row_than_by_tensor():
    by_row = quantize_rows(UNEVEN).dequantized() - UNEVEN
    by_tensor = quantize_tensor(UNEVEN).dequantized() - UNEVEN
    assert np.abs(by_row[:50]).max() < 0.2 * np.abs(by_tensor[:50]).max()


@pytest.mark.parametrize("quantize", [quantize_tensor, quantize_rows])
def test_zeros_stay_zeros(quantize):
    assert not quantize(np.zeros((3, 4), np.float32)).dequantized().any()


def test_int4_stays_in_range_and_follows_the_matrix():
    quantized = quantize_rows_int4(UNEVEN, np.eye(16))
    assert np.abs(quantized.values).max() <= 7
    error = np.abs(quantized.dequantized() - UNEVEN).mean(axis=1)
    assert (error < 0.2 * np.abs(UNEVEN).max(axis=1)).all()


def test_compensated_int4_beats_rounding_where_text_is():
    """Hidden vectors that live in few directions: the error there is what logits see."""
    random = np.random.default_rng(1)
    directions = random.normal(size=(4, 16))
    hidden = random.normal(size=(500, 4)) @ directions + 0.05 * random.normal(size=(500, 16))
    compensated = quantize_rows_int4(MATRIX, hidden.T @ hidden, damping=0.01)
    plain = quantize_rows_int4(MATRIX, np.zeros((16, 16)), damping=1.0)  # nothing to make up for

    def logit_error(quantized):
        return np.square(hidden @ (quantized.dequantized() - MATRIX).T).mean()

    assert logit_error(compensated) < 0.4 * logit_error(plain)


def test_without_text_int4_is_plain_rounding_to_the_nearest():
    quantized = quantize_rows_int4(MATRIX, np.zeros((16, 16)))
    ratios = MATRIX / quantized.scales()[:, np.newaxis]
    np.testing.assert_array_equal(quantized.values, np.clip(np.round(ratios), -7, 7))


def test_covariance_of_another_width_is_rejected():
    with pytest.raises(ValueError, match=r"`covariance` must be \[16, 16\], got \(3, 3\)"):
        quantize_rows_int4(MATRIX, np.eye(3))


@hypothesis.given(st.lists(st.integers(-8, 7), min_size=0, max_size=40))
@examples(100)
def test_packed_int4_unpacks(values):
    values = values + [0] * (len(values) % 2)
    packed = pack_int4(np.array(values, np.int8))
    unpacked = []
    for byte in packed.tolist():
        for nibble in (byte & 15, byte >> 4):
            unpacked.append(nibble - 16 if nibble > 7 else nibble)
    assert unpacked == values


def test_odd_number_of_int4_is_rejected():
    with pytest.raises(ValueError, match="even number"):
        pack_int4(np.zeros(3, np.int8))
