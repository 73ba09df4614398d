"""Reads the word table back from a file's bytes and holds each row against the trained one.

Whatever rows a text happens to use, all of them are read: two that changed places, one that became
zero or a scale that is off show here, for a tenth of a second. The file says how a row is stored:

    float32                 exactly
    float16                 to half a unit in the last place
    int8, one scale         to half a step
    int8, one code a row    to half a step of that row, base * code
    int4, one code a row    to `INT4_RMS_STEPS` on average: rounding errors of a column are made up
                            for by later ones, and large values are cut (`quantize_rows_int4`)
"""

from typing import NamedTuple

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from tff_keyboard.storage.errors import CheckFailed

INT4_RMS_STEPS = 0.75  # sound tables reach 0.5; a row of another word 3 and more
_SLACK = 1.01  # float32 arithmetic between a value and its rounded one
_SMALLEST = float(np.finfo(np.float16).smallest_subnormal)
_Type = schema.TensorType
_DTYPES = {_Type.FLOAT32: np.float32, _Type.FLOAT16: np.float16, _Type.INT8: np.int8}


class StoredTable(NamedTuple):
    """A table as a file holds it."""

    rows: np.ndarray  # [V, dim] float64
    # [V, 1] or [V, dim] float64, the distance of neighbouring values; 0 for float32
    steps: np.ndarray
    is_int4: bool  # whether a row is only near on average


def read_table(data: bytes, shape: tuple[int, int]) -> StoredTable:
    """The table of a `.tflite` file, of shape (V, dim).

    Raises `CheckFailed` if no buffer is read as such a table, or its rows have several scales.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    stored = [tensor for tensor in tensors if _has_data(model, tensor)]
    table = next((tensor for tensor in stored if _shape(tensor) == shape), None)
    if table is None:
        raise CheckFailed(f"The file holds no word table of {shape[0]:,} rows by {shape[1]}.")
    values = _values(model, table)
    if table.type == _Type.FLOAT32:
        return StoredTable(values, np.zeros([shape[0], 1]), False)
    if table.type == _Type.FLOAT16:
        spacing = np.spacing(np.abs(values).astype(np.float16)).astype(np.float64)
        return StoredTable(values, np.maximum(spacing, _SMALLEST), False)
    steps = np.broadcast_to(_scales(table), [shape[0]])[:, np.newaxis]
    codes = {tensor.buffer: tensor for tensor in stored if _is_codes(tensor, shape[0])}
    if len(codes) > 1:
        raise CheckFailed(f"The word table must have one scale a row, but has {len(codes)}.")
    for tensor in codes.values():
        steps = steps * (_values(model, tensor) * _scales(tensor)).reshape(-1, 1)
    return StoredTable(values * steps, steps, table.type == _Type.INT4)


def wrong_rows(table: StoredTable, truth: np.ndarray) -> np.ndarray:
    """Numbers of the rows of a file's table that are not the trained ones [V, dim], rounded."""
    error = np.abs(table.rows - truth)
    if table.is_int4:
        rms = np.sqrt(np.square(error).mean(axis=1, keepdims=True))
        near = rms <= INT4_RMS_STEPS * table.steps
    else:
        near = error <= table.steps / 2 * _SLACK
    return np.flatnonzero(~near.all(axis=1))  # NaN is not near


def check_table(data: bytes, truth: np.ndarray) -> None:
    """Raises `CheckFailed` unless every row of a file's table is the trained one, rounded."""
    rows, dim = truth.shape
    wrong = wrong_rows(read_table(data, (rows, dim)), truth)
    if len(wrong):
        raise CheckFailed(
            f"{len(wrong):,} of the {len(truth):,} rows of the word table read back from the file "
            f"are not those of the model (the first: row {wrong[0]}). The file is broken; report "
            "this with the command."
        )


def _has_data(model: schema.ModelT, tensor: schema.TensorT) -> bool:
    data = model.buffers[tensor.buffer].data
    return data is not None and len(data) > 0


def _shape(tensor: schema.TensorT) -> tuple[int, ...]:
    return () if tensor.shape is None else tuple(int(size) for size in tensor.shape)


def _is_codes(tensor: schema.TensorT, rows: int) -> bool:
    return tensor.type == _Type.INT8 and _shape(tensor) in ((rows, 1), (1, rows))


def _values(model: schema.ModelT, tensor: schema.TensorT) -> np.ndarray:
    """What is stored, without its scale: float64 in the tensor's shape."""
    data = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
    if tensor.type == _Type.INT4:
        halves = np.stack([data & 0x0F, data >> 4], axis=1).astype(np.int64)  # low one first
        return (((halves + 8) % 16) - 8).reshape(_shape(tensor)).astype(np.float64)
    if tensor.type not in _DTYPES:
        raise CheckFailed(f"The word table is stored as type {tensor.type}, which is not known.")
    return data.view(_DTYPES[tensor.type]).reshape(_shape(tensor)).astype(np.float64)


def _scales(tensor: schema.TensorT) -> np.ndarray:
    """[1] or [rows]."""
    scale = tensor.quantization.scale if tensor.quantization is not None else None
    return np.ones(1) if scale is None else np.asarray(scale, np.float64)
