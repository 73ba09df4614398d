"""Operators that could run any code are found before a runtime opens the file."""

import pathlib
import struct

import flatbuffers
import hypothesis.strategies as st
import pytest
import tensorflow as tf
from hypothesis import given
from tensorflow.lite.python import schema_py_generated as schema

from tff_keyboard.storage.errors import ExportError
from tflite_export.format import operators
from tflite_export.runtime import interpreters

SHIPPED = sorted((pathlib.Path(__file__).parents[3] / "models").glob("*/*.tflite"))
CUSTOM, ADD = schema.BuiltinOperator.CUSTOM, schema.BuiltinOperator.ADD


def model(*codes):
    """Returns a model with kinds of operators, each as its old and its new number."""
    content = schema.ModelT()
    content.version, content.operatorCodes = 3, []
    for old, new in codes:
        code = schema.OperatorCodeT()
        code.deprecatedBuiltinCode, code.builtinCode = old, new
        content.operatorCodes.append(code)
    builder = flatbuffers.Builder(0)
    builder.Finish(content.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def is_refused(path, data):
    path.write_bytes(data)
    try:
        operators.check_own(path)
    except ExportError:
        return True
    return False


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_shipped_models_have_only_operators_of_tflite(path):
    operators.check_own(path)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], False),
        ([(ADD, ADD), (127, 150)], False),
        ([(ADD, ADD), (CUSTOM, CUSTOM)], True),
        ([(CUSTOM, 0)], True),
        ([(0, CUSTOM)], True),
        ([(ADD, ADD)] * 1_001, True),
    ],
)
def test_a_custom_operator_is_refused(tmp_path, codes, expected):
    assert is_refused(tmp_path / "m.tflite", model(*codes)) == expected


def test_a_file_that_runs_code_of_tensorflow_is_refused(tmp_path):
    """LiteRT runs such an operator, too, if the process has imported TensorFlow."""
    written, path = tmp_path / "written", tmp_path / "hostile.tflite"

    class Hostile(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1], tf.int32)])
        def step(self, token):
            with tf.control_dependencies(
                [tf.raw_ops.WriteFile(filename=str(written), contents="code")]
            ):
                return tf.identity(token)

    hostile = Hostile()
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [hostile.step.get_concrete_function()], hostile
    )
    converter.target_spec.supported_ops = [
        tf.lite.OpsSet.TFLITE_BUILTINS,
        tf.lite.OpsSet.SELECT_TF_OPS,
    ]
    path.write_bytes(converter.convert())

    def run(runtime):
        interpreter = interpreters.open_interpreter(path, runtime=runtime)
        interpreter.allocate_tensors()
        interpreter.invoke()

    for runtime in interpreters.installed_runtimes():
        with pytest.raises(ExportError, match="not TFLite's own"):
            run(runtime)
        assert not written.exists()


@pytest.mark.parametrize("size", [0, 3, 4, 20, 40])
def test_a_file_that_is_cut_short_is_refused(tmp_path, size):
    assert is_refused(tmp_path / "m.tflite", model((ADD, ADD))[:size])


@given(
    places=st.lists(st.tuples(st.integers(0, 1_000), st.binary(min_size=1, max_size=4)), max_size=4)
)
def test_damaged_files_are_read_as_the_library_of_flatbuffers_reads_them(tmp_path_factory, places):
    """A custom operator that an interpreter sees is never overlooked."""
    data = bytearray(model((ADD, ADD), (CUSTOM, CUSTOM), (127, 150)))
    for place, content in places:
        place %= len(data) - 4
        data[place : place + len(content)] = content
    try:
        root = schema.Model.GetRootAsModel(data, 0)
        codes = [root.OperatorCodes(i) for i in range(root.OperatorCodesLength())]
        is_custom = any(
            max(code.DeprecatedBuiltinCode(), code.BuiltinCode()) == CUSTOM for code in codes
        )
    except (struct.error, TypeError, ValueError, AttributeError, MemoryError, OverflowError):
        return
    path = tmp_path_factory.getbasetemp() / "damaged.tflite"
    assert is_refused(path, bytes(data)) or not is_custom
