"""Reads a written `.tflite` file back: what it stores, what it runs, what it promises.

Nothing here trusts the code that wrote the file. `verify` is what an export must pass; `explain`
is the table a person asks for.
"""

import collections
import dataclasses
import hashlib
import struct
from collections.abc import Sequence

import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

from tff_keyboard.storage.errors import CheckFailed

_TYPE_NAMES = {
    value: name.lower()
    for name, value in vars(schema.TensorType).items()
    if not name.startswith("_")
}
_OPERATOR_NAMES = {
    value: name for name, value in vars(schema.BuiltinOperator).items() if not name.startswith("_")
}

# What comes of offsets and numbers that point anywhere, in code that trusts them.
_DAMAGED = (struct.error, TypeError, ValueError, LookupError, AttributeError, OverflowError)


@dataclasses.dataclass(frozen=True)
class Use:
    """One way a buffer is read: the type and shape of a tensor over it."""

    type_name: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.type_name}[{', '.join(map(str, self.shape))}]"


@dataclasses.dataclass(frozen=True)
class StoredBuffer:
    """Bytes in the file and the tensors that read them."""

    num_bytes: int
    offset: int  # from the start of the file
    digest: str
    uses: tuple[Use, ...]  # each once
    num_tensors: int


@dataclasses.dataclass(frozen=True)
class FileReport:
    """What a `.tflite` file holds."""

    num_bytes: int
    signatures: dict[str, int]  # name -> subgraph index
    # Name -> how often, over all subgraphs; those outside the built-in set are named "custom:NAME"
    operators: dict[str, int]
    buffers: list[StoredBuffer]  # buffers with data, largest first


def inspect(data: bytes) -> FileReport:
    """Reads a file. Raises `CheckFailed` if it is not a TFLite flatbuffer."""
    if data[4:8] != b"TFL3":
        raise CheckFailed("The file is not a TFLite model: its identifier is not 'TFL3'.")
    try:
        return _report(data)
    except _DAMAGED as error:
        raise CheckFailed(
            f"The file is not a whole TFLite model ({type(error).__name__} where it is read)."
        ) from None


def _report(data: bytes) -> FileReport:
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
    data: bytes, *, max_bytes: int | None, signatures: Sequence[str], table_shape: tuple[int, int]
) -> FileReport:
    """Checks the promises of an export from the bytes that were written.

    Exactly one buffer may be read as a table of `table_shape`, (vocabulary, dim), transposed, or
    packed two values a byte.

    Raises:
      CheckFailed: Too large, an operator that is not built in, a table stored twice or not at all,
        a signature missing, or a buffer that is not aligned.
    """
    report = inspect(data)
    if max_bytes is not None and report.num_bytes > max_bytes:
        raise CheckFailed(
            f"The model has {report.num_bytes:,} bytes, more than the {max_bytes:,} allowed. "
            "See --explain for what takes them, or set --max-bytes."
        )
    outside = [name for name in report.operators if name.startswith("custom:")]
    if outside:
        raise CheckFailed(f"The model needs operators that are not built in: {', '.join(outside)}.")
    missing = set(signatures) - set(report.signatures)
    if missing:
        raise CheckFailed(f"The model lacks the signatures {', '.join(sorted(missing))}.")
    rows, columns = table_shape
    shapes = {(rows, columns), (columns, rows), (rows, columns // 2)}
    tables = [
        buffer for buffer in report.buffers if any(use.shape in shapes for use in buffer.uses)
    ]
    if len(tables) != 1:
        raise CheckFailed(
            f"The word table must be stored once, but {len(tables)} buffers hold one of its size."
        )
    unaligned = [buffer for buffer in report.buffers if buffer.offset % 16]
    if unaligned:
        raise CheckFailed(
            f"{len(unaligned)} buffers do not start at a multiple of 16 bytes, as the format asks."
        )
    return report


def explain(report: FileReport) -> str:
    """A table of bytes by tensor, largest first, as text.

    The last rows are buffers too small to matter, and the graph itself: tensors, operators and
    signatures.
    """
    shown = [buffer for buffer in report.buffers if buffer.num_bytes >= 1000]
    small = [buffer for buffer in report.buffers if buffer.num_bytes < 1000]
    lines = [f"{'bytes':>10}  {'share':>6}  {'readers':>7}  read as"]

    def row(num_bytes: int, readers: str, what: str) -> None:
        lines.append(
            f"{num_bytes:>10,}  {num_bytes / report.num_bytes:>6.1%}  {readers:>7}  {what}"
        )

    for buffer in shown:
        row(buffer.num_bytes, str(buffer.num_tensors), " and ".join(map(str, buffer.uses)))
    small_bytes = sum(buffer.num_bytes for buffer in small)
    row(small_bytes, "", f"{len(small)} buffers below 1,000 bytes")
    stored = sum(buffer.num_bytes for buffer in report.buffers)
    row(report.num_bytes - stored, "", "graph: tensors, operators, signatures")
    row(report.num_bytes, "", f"in all; signatures: {', '.join(report.signatures)}")
    used = ", ".join(f"{name} {count}" for name, count in report.operators.items())
    lines.append(f"operators: {used}")
    return "\n".join(lines)


def _stored_buffers(data: bytes, root: schema.Model, model: schema.ModelT) -> list[StoredBuffer]:
    readers: dict[int, list[Use]] = collections.defaultdict(list)
    for subgraph in model.subgraphs:
        for tensor in subgraph.tensors:
            shape = () if tensor.shape is None else tuple(int(size) for size in tensor.shape)
            readers[tensor.buffer].append(Use(_TYPE_NAMES[tensor.type], shape))
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
                uses=tuple(dict.fromkeys(readers[index])),
                num_tensors=len(readers[index]),
            )
        )
    return sorted(stored, key=lambda buffer: (-buffer.num_bytes, buffer.offset))


def _operator_name(code: schema.OperatorCodeT) -> str:
    if code.customCode is not None:
        return f"custom:{code.customCode.decode()}"
    # Files older than the wide field have 0 there.
    return _OPERATOR_NAMES[max(code.builtinCode, code.deprecatedBuiltinCode)]
