import numpy as np
import pytest
from tensorflow.lite.python import schema_py_generated as schema

from tests.support.keyboard import export_fakes
from tff_keyboard.storage.errors import CheckFailed
from tflite_export.format import inspection, signatures
from tflite_export.graphs import converter, quantization, row_scaled
from tflite_export.graphs.cifg_weights import CifgWeights
from tflite_export.graphs.flatbuffer_builder import ModelBuilder, Op, model_to_bytes

WEIGHTS = CifgWeights.from_model(export_fakes.model())
SHAPE = (WEIGHTS.vocabulary_size, WEIGHTS.dim)
DATA = row_scaled.build(WEIGHTS, quantization.quantize_rows(WEIGHTS.embedding), top_k=3)
NAMES = signatures.INFERENCE_SIGNATURES


def verify(data, **changes):
    arguments = {"max_bytes": len(DATA), "signatures": NAMES, "table_shape": SHAPE} | changes
    return inspection.verify(data, **arguments)


def test_a_sound_file_passes():
    report = verify(DATA)
    assert report.num_bytes == len(DATA)
    assert set(report.signatures) == set(NAMES)


def test_one_byte_too_many_fails():
    with pytest.raises(CheckFailed, match=f"{len(DATA):,} bytes, but at most {len(DATA) - 1:,}"):
        verify(DATA, max_bytes=len(DATA) - 1)


def test_a_missing_signature_fails():
    with pytest.raises(CheckFailed, match="lacks the signatures train"):
        verify(DATA, signatures=[*NAMES, "train"])


def test_an_operator_that_is_not_built_in_fails():
    model = converter.read_model(DATA)
    code = schema.OperatorCodeT()
    code.builtinCode, code.customCode = Op.CUSTOM, b"FlexTensorListReserve"
    model.operatorCodes.append(code)
    model.subgraphs[0].operators[0].opcodeIndex = len(model.operatorCodes) - 1
    with pytest.raises(CheckFailed, match="not built into TFLite: custom:FlexTensorListReserve"):
        verify(model_to_bytes(model), max_bytes=None)


@pytest.mark.parametrize("transposed", [False, True])
def test_a_second_copy_of_the_table_fails(transposed):
    model = converter.read_model(DATA)
    copy = WEIGHTS.embedding.T if transposed else WEIGHTS.embedding
    ModelBuilder(model).edit(0).constant(np.ascontiguousarray(copy))
    with pytest.raises(CheckFailed, match="stored once, but 2 buffers"):
        verify(model_to_bytes(model), max_bytes=None)


def test_no_table_fails():
    with pytest.raises(CheckFailed, match="stored once, but 0 buffers"):
        verify(DATA, table_shape=(SHAPE[0] + 1, SHAPE[1]))


def test_a_buffer_off_its_alignment_fails():
    """The generated Python code writes every byte right, but not the offsets."""
    import flatbuffers

    builder = flatbuffers.Builder(1024)
    builder.Finish(converter.read_model(DATA).Pack(builder), file_identifier=b"TFL3")
    with pytest.raises(CheckFailed, match="multiple of 16 bytes"):
        verify(bytes(builder.Output()), max_bytes=None)


@pytest.mark.parametrize("data", [b"", b"TFL", b"PK\x03\x04" * 10])
def test_another_kind_of_file_fails(data):
    with pytest.raises(CheckFailed, match="not a TFLite model"):
        inspection.inspect(data)


def test_equal_constants_share_a_buffer_and_a_tensor():
    builder = ModelBuilder()
    first, second = builder.subgraph("first"), builder.subgraph("second")
    values = np.arange(6, dtype=np.float32)
    assert first.constant(values) == first.constant(values.copy())
    assert first.constant(values) != first.constant(values.reshape(2, 3))
    second.constant(values)
    first.constant(values.view(np.int8))
    assert len(builder.model.buffers) == 2  # the empty one, and these bytes
