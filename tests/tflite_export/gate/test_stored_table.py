"""The table read from a file, against the table of the writer."""

import numpy as np
import pytest

from tests.support.keyboard import export_fakes
from tff_keyboard.storage.errors import CheckFailed
from tflite_export.gate import stored_table
from tflite_export.graphs import converter, quantization, row_scaled, trainable
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.flatbuffer_builder import ModelBuilder, model_to_bytes

# The converter leaves matrices of less than 1,024 values as they are.
WEIGHTS = CifgWeights.from_model(export_fakes.Sized(300, 6, 8).model)
TABLE = WEIGHTS.embedding
ROWS = quantization.quantize_rows(TABLE)
FORMATS = {
    "int8": lambda: converter.convert(WEIGHTS, "int8", top_k=3),
    "none": lambda: converter.convert(WEIGHTS, "none", top_k=3),
    "int8-rows": lambda: row_scaled.build(WEIGHTS, ROWS, top_k=3),
    "trainable": lambda: trainable.build(WEIGHTS, top_k=3),
}
STORED = {
    "int8-rows": ROWS.dequantized(),
    "trainable": ROWS.dequantized(),
    "none": TABLE,
}


@pytest.fixture(
    scope="module",
    params=[pytest.param(f, marks=pytest.mark.slow if f == "trainable" else ()) for f in FORMATS],
)
def read(request):
    return request.param, stored_table.read_table(FORMATS[request.param](), TABLE.shape)


def test_every_format_is_read_back(read):
    name, table = read
    if name in STORED:
        np.testing.assert_allclose(table.rows, STORED[name], rtol=1e-6)
    assert len(stored_table.wrong_rows(table, TABLE)) == 0
    if name == "none":
        np.testing.assert_array_equal(table.rows, TABLE)


def test_half_a_step_is_right_and_more_is_not(read):
    name, table = read
    if name == "none":
        return
    steps = np.broadcast_to(table.steps, TABLE.shape)
    for share, wrong in ((0.49, 0), (0.52, 1)):
        truth = table.rows.copy()
        truth[30, 2] += share * steps[30, 2]
        assert len(stored_table.wrong_rows(table, truth)) == wrong


def test_two_rows_that_changed_places_are_named(read):
    name, table = read
    other = TABLE.copy()
    other[[10, 41]] = other[[41, 10]]
    assert stored_table.wrong_rows(table, other).tolist() == [10, 41], name


def test_nan_is_wrong(read):
    _, table = read
    rows = table.rows.copy()
    rows[5] = np.nan
    assert stored_table.wrong_rows(table._replace(rows=rows), TABLE).tolist() == [5]


def test_a_table_of_another_shape_is_none(read):
    name, _ = read
    with pytest.raises(CheckFailed, match="no word table of 299 rows by 8"):
        stored_table.read_table(FORMATS[name](), (299, 8))


def test_two_scales_a_row_are_refused():
    model = converter.read_model(FORMATS["int8-rows"]())
    codes = np.arange(len(TABLE), dtype=np.int8)[:, np.newaxis]
    ModelBuilder(model).edit(0).constant(codes, 1.0)
    with pytest.raises(CheckFailed, match="one scale per row, but has 2"):
        stored_table.read_table(model_to_bytes(model), TABLE.shape)
