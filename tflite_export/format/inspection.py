"""Reads a written `.tflite` file back: its buffers, operators and signatures.

This code is independent of the code that wrote the file. An export must pass `verify`.
"""

import collections
import dataclasses
import hashlib
import struct
from collections.abc import Sequence

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from tff_keyboard.storage.errors import CheckFailed

_OPERATOR_NAMES = {
    value: name for name, value in vars(schema.BuiltinOperator).items() if not name.startswith("_")
}

# Errors that the flatbuffer code raises if offsets and sizes in the file are wrong.
_DAMAGED = (struct.error, TypeError, ValueError, LookupError, AttributeError, OverflowError)


@dataclasses.dataclass(frozen=True)
class StoredBuffer:
    """Bytes in the file and the shapes of the tensors that read them."""

    num_bytes: int
    offset: int  # from the start of the file
    digest: str
    shapes: tuple[tuple[int, ...], ...]  # each once


@dataclasses.dataclass(frozen=True)
class FileReport:
    """The contents of a `.tflite` file."""

    num_bytes: int
    signatures: dict[str, int]  # name -> subgraph index
    # Name -> count over all subgraphs. Operators that are not built in are named "custom:NAME".
    operators: dict[str, int]
    buffers: list[StoredBuffer]  # buffers with data, largest first


def inspect(data: bytes) -> FileReport:
    """Reads a file.

    Raises:
      CheckFailed: If the file is not a whole TFLite flatbuffer.
    """
    if data[4:8] != b"TFL3":
        raise CheckFailed("The file is not a TFLite model: its identifier is not 'TFL3'.")
    try:
        return _report(data)
    except _DAMAGED as error:
        raise CheckFailed(
            f"The file is not a complete TFLite model ({type(error).__name__} while reading)."
        ) from None


def _report(data: bytes) -> FileReport:
    """Reads the file's signatures, operators and buffers."""
    root = schema.Model.GetRootAsModel(data, 0)
    model = schema.ModelT.InitFromObj(root)
    operators = collections.Counter(
        _operator_name(model.operatorCodes[node.opcodeIndex])
        for subgraph in model.subgraphs
        for node in subgraph.operators or []
    )
    return FileReport(
        num_bytes=len(data),
        signatures={
            definition.signatureKey.decode(): definition.subgraphIndex
            for definition in model.signatureDefs or []
        },
        operators=dict(sorted(operators.items())),
        buffers=_stored_buffers(data, root, model),
    )


def verify(
    data: bytes,
    *,
    max_bytes: int | None,
    signatures: Sequence[str],
    table_shape: tuple[int, int] | None,
    copies: int = 1,
) -> FileReport:
    """Checks that the bytes of an export keep its promises.

    Exactly `copies` buffers may be read as a table of `table_shape`, (vocabulary, dim), or its
    transpose: one if the model has one weight of this shape. None: there is no such table.

    Raises:
      CheckFailed: If the file is too large, needs an operator that is not built in, stores the
        table twice or not at all, lacks a signature, or has a buffer that is not aligned.
    """
    report = inspect(data)
    if max_bytes is not None and report.num_bytes > max_bytes:
        raise CheckFailed(
            f"The model has {report.num_bytes:,} bytes, but at most {max_bytes:,} are allowed. "
            "Choose a smaller `data.vocabulary_size`, or set --max-bytes."
        )
    outside = [name for name in report.operators if name.startswith("custom:")]
    if outside:
        raise CheckFailed(
            f"The model uses operators that are not built into TFLite: {', '.join(outside)}."
        )
    missing = set(signatures) - set(report.signatures)
    if missing:
        raise CheckFailed(f"The model lacks the signatures {', '.join(sorted(missing))}.")
    if table_shape is not None:
        _check_tables(report, table_shape, copies)
    unaligned = [buffer for buffer in report.buffers if buffer.offset % 16]
    if unaligned:
        raise CheckFailed(
            f"{len(unaligned)} buffers do not start at a multiple of 16 bytes, as the format "
            "requires."
        )
    return report


def _check_tables(report: FileReport, table_shape: tuple[int, int], copies: int) -> None:
    """Raises `CheckFailed` unless `copies` buffers have the shape of the word table."""
    rows, columns = table_shape
    shapes = {(rows, columns), (columns, rows)}
    tables = [buffer for buffer in report.buffers if shapes & set(buffer.shapes)]
    if len(tables) != copies:
        often = "once" if copies == 1 else f"{copies} times, for {copies} weights of its size"
        raise CheckFailed(
            f"The word table must be stored {often}, but {len(tables)} buffers have its size."
        )


def _stored_buffers(data: bytes, root: schema.Model, model: schema.ModelT) -> list[StoredBuffer]:
    """Returns the buffers that have content, the largest first, with their tensors' shapes."""
    readers: dict[int, list[tuple[int, ...]]] = collections.defaultdict(list)
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            shape = () if tensor.shape is None else tuple(int(size) for size in tensor.shape)
            readers[tensor.buffer].append(shape)
    file_start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    stored = []
    for index in range(root.BuffersLength()):
        if not root.Buffers(index).DataLength():
            continue
        content = root.Buffers(index).DataAsNumpy()
        stored.append(
            StoredBuffer(
                num_bytes=content.size,
                offset=content.__array_interface__["data"][0] - file_start,
                digest=hashlib.sha256(content.tobytes()).hexdigest(),
                shapes=tuple(dict.fromkeys(readers[index])),
            )
        )
    return sorted(stored, key=lambda buffer: (-buffer.num_bytes, buffer.offset))


def _operator_name(code: schema.OperatorCodeT) -> str:
    if code.customCode is not None:
        return f"custom:{code.customCode.decode()}"
    # In files that are older than the 32-bit field `builtinCode`, that field is 0.
    return _OPERATOR_NAMES[max(code.builtinCode, code.deprecatedBuiltinCode)]
