import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.examples import examples
from tflite_export.graphs.quantization import quantize_rows, quantize_tensor

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
