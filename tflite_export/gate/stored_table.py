"""Reads the word table back from a file's bytes and compares each row with the trained row.

The check covers all rows, whether a text uses them or not. It finds swapped rows, zero rows and
wrong scales, and takes a tenth of a second. The tolerance depends on how the file stores a row:

    float32                 exact
    int8, one scale         half a step
    int8, one code a row    half a step of that row, base * code
"""

from typing import NamedTuple

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from tff_keyboard.storage.errors import CheckFailed

_SLACK = 1.01  # allows for float32 arithmetic between a value and its rounded value
_Type = schema.TensorType
_DTYPES = {_Type.FLOAT32: np.float32, _Type.INT8: np.int8}


class StoredTable(NamedTuple):
    """A table as the file stores it."""

    rows: np.ndarray  # [V, dim] float64
    steps: np.ndarray  # [V, 1] float64, the distance of neighbouring values; 0 for float32


def read_table(data: bytes, shape: tuple[int, int], position: int = 0) -> StoredTable:
    """Returns the table of a `.tflite` file.

    Args:
      data: Bytes of the file.
      shape: (V, dim).
      position: Which of the tables of this shape.

    Raises:
      CheckFailed: If no buffer is read as a table of this shape, or its rows have several scales.
    """
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAsModel(data, 0))
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    has_data = [buffer.data is not None and len(buffer.data) > 0 for buffer in model.buffers]
    stored = [tensor for tensor in tensors if has_data[tensor.buffer]]
    tables = {tensor.buffer: tensor for tensor in stored if _shape(tensor) == shape}
    if position >= len(tables):
        raise CheckFailed(f"The file has no word table of {shape[0]:,} rows by {shape[1]}.")
    table = list(tables.values())[position]
    values = _values(model, table)
    if table.type == _Type.FLOAT32:
        return StoredTable(values, np.zeros([shape[0], 1]))
    steps = np.broadcast_to(_scales(table), [shape[0]])[:, np.newaxis]
    codes = {
        tensor.buffer: tensor
        for tensor in stored
        if tensor.type == _Type.INT8 and _shape(tensor) in ((shape[0], 1), (1, shape[0]))
    }
    if len(codes) > 1:
        raise CheckFailed(f"The word table must have one scale per row, but has {len(codes)}.")
    for tensor in codes.values():
        steps = steps * (_values(model, tensor) * _scales(tensor)).reshape(-1, 1)
    return StoredTable(values * steps, steps)


def wrong_rows(table: StoredTable, truth: np.ndarray) -> np.ndarray:
    """Returns the indices of rows of a file's table that differ from the trained rows.

    Args:
      table: Table of the file.
      truth: Trained table, [V, dim]. A difference within the rounding of the file is allowed.
    """
    error = np.abs(table.rows - truth)
    near = error <= table.steps / 2 * _SLACK
    return np.flatnonzero(~near.all(axis=1))  # NaN is not near


def check_table(data: bytes, truth: np.ndarray, copies: int = 1) -> None:
    """Checks that every row of a file's table is the trained row, rounded.

    One of the `copies` tables of this shape must be it.

    Raises:
      CheckFailed: If a row differs.
    """
    rows, dim = truth.shape
    candidates = [
        wrong_rows(read_table(data, (rows, dim), position), truth) for position in range(copies)
    ]
    wrong = min(candidates, key=len)
    if len(wrong):
        raise CheckFailed(
            f"{len(wrong):,} of the {len(truth):,} rows of the word table in the file differ from "
            f"the model (the first: row {wrong[0]}). The file is broken; report "
            "this with the command."
        )


def _shape(tensor: schema.TensorT) -> tuple[int, ...]:
    return () if tensor.shape is None else tuple(int(size) for size in tensor.shape)


def _values(model: schema.ModelT, tensor: schema.TensorT) -> np.ndarray:
    """Returns the stored values without their scale: float64 in the tensor's shape."""
    data = np.asarray(model.buffers[tensor.buffer].data, np.uint8)
    if tensor.type not in _DTYPES:
        raise CheckFailed(
            f"The word table is stored as type {tensor.type}, which is not supported."
        )
    return data.view(_DTYPES[tensor.type]).reshape(_shape(tensor)).astype(np.float64)


def _scales(tensor: schema.TensorT) -> np.ndarray:
    """Returns the scales, [1] or [rows]."""
    scale = tensor.quantization.scale if tensor.quantization is not None else None
    return np.ones(1) if scale is None else np.asarray(scale, np.float64)
