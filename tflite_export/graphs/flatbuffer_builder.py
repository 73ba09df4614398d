"""Writes `.tflite` files tensor by tensor, with TensorFlow's own schema classes.

For graphs the converter cannot express: int4 tables read two ways, one scale a row. A
`ModelBuilder` owns buffers, operator codes and signatures; a `SubgraphBuilder` owns tensors and
operators, one short method for each operator in use.

Buffers with equal bytes are stored once, across subgraphs, and start at multiples of 16 bytes in
the file: kernels read weights straight from the mapped file with vector loads.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import flatbuffers
import numpy as np
from tensorflow.lite.python import schema_py_generated as schema

Op = schema.BuiltinOperator
Type = schema.TensorType

BUFFER_ALIGNMENT = 16  # bytes, as `force_align` of Buffer.data in schema.fbs
FILE_IDENTIFIER = b"TFL3"

_TYPES = {
    np.dtype(np.float32): Type.FLOAT32,
    np.dtype(np.int8): Type.INT8,
    np.dtype(np.int32): Type.INT32,
}


class ModelBuilder:
    """A model under construction: an empty one, or a converted one to be changed."""

    def __init__(self, model: schema.ModelT | None = None):
        self.model = model or _empty_model()
        self._buffers: dict[bytes, int] = {}
        self._operator_codes = {
            (code.builtinCode, code.version): index
            for index, code in enumerate(self.model.operatorCodes)
        }

    def subgraph(self, name: str) -> "SubgraphBuilder":
        """Adds an empty subgraph."""
        graph = schema.SubGraphT()
        graph.name = name
        graph.tensors = []
        graph.operators = []
        graph.inputs = []
        graph.outputs = []
        self.model.subgraphs.append(graph)
        return SubgraphBuilder(self, len(self.model.subgraphs) - 1)

    def edit(self, index: int) -> "SubgraphBuilder":
        """An existing subgraph, to add tensors and operators to."""
        return SubgraphBuilder(self, index)

    def buffer(self, data: bytes) -> int:
        """Index of the buffer with these bytes."""
        if data not in self._buffers:
            self._buffers[data] = self._add_buffer(data)
        return self._buffers[data]

    def operator_code(self, operator: int, version: int) -> int:
        """Index of the operator in this version."""
        key = (operator, version)
        if key not in self._operator_codes:
            code = schema.OperatorCodeT()
            code.builtinCode = operator
            code.deprecatedBuiltinCode = min(operator, 127)
            code.version = version
            self.model.operatorCodes.append(code)
            self._operator_codes[key] = len(self.model.operatorCodes) - 1
        return self._operator_codes[key]

    def signature(
        self,
        name: str,
        subgraph: "SubgraphBuilder",
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
    ) -> None:
        """Makes a subgraph callable by name, with named tensors."""
        subgraph.set_inputs_and_outputs(list(inputs.values()), list(outputs.values()))
        definition = schema.SignatureDefT()
        definition.signatureKey = name
        definition.subgraphIndex = subgraph.index
        definition.inputs = [_named_tensor(*item) for item in inputs.items()]
        definition.outputs = [_named_tensor(*item) for item in outputs.items()]
        self.model.signatureDefs.append(definition)
        name_signature_tensors(self.model)

    def metadata(self, name: str, data: bytes) -> None:
        """Attaches named bytes."""
        entry = schema.MetadataT()
        entry.name = name
        entry.buffer = self._add_buffer(data)
        self.model.metadata.append(entry)

    def to_bytes(self) -> bytes:
        """The finished file."""
        return model_to_bytes(self.model)

    def _add_buffer(self, data: bytes) -> int:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1


class SubgraphBuilder:
    """A subgraph under construction. Tensors are known by their index, an int."""

    def __init__(self, builder: ModelBuilder, index: int):
        self.index = index
        self._builder = builder
        self._constants: dict[Any, int] = {}
        self._graph = builder.model.subgraphs[index]

    def set_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """What the caller gives, and what it gets."""
        self._graph.inputs = list(inputs)
        self._graph.outputs = list(outputs)

    # --- tensors

    def tensor(
        self,
        shape: Sequence[int],
        type_: int = Type.FLOAT32,
        *,
        buffer: int = 0,
        scale: float | None = None,
        shape_signature: Sequence[int] | None = None,
    ) -> int:
        """Adds a tensor; `shape_signature` has -1 where the size is known at run time only."""
        tensor = schema.TensorT()
        tensor.shape = np.array(shape, np.int32)
        tensor.type = type_
        tensor.buffer = buffer
        if shape_signature is not None:
            tensor.shapeSignature = np.array(shape_signature, np.int32)
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.array([scale], np.float32)
            tensor.quantization.zeroPoint = np.array([0], np.int64)
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    def constant(
        self,
        values: np.ndarray,
        scale: float | None = None,
        *,
        shape: Sequence[int] | None = None,
        type_: int | None = None,
    ) -> int:
        """A tensor with data; equal ones are one. `shape`, `type_`: how to read packed bytes."""
        type_ = _TYPES[values.dtype] if type_ is None else type_
        shape = tuple(values.shape if shape is None else shape)
        data = values.tobytes()  # in C order, whatever the strides
        key = (data, type_, shape, scale)
        if key not in self._constants:
            self._constants[key] = self.tensor(
                shape, type_, buffer=self._builder.buffer(data), scale=scale
            )
        return self._constants[key]

    def integers(self, values: int | Sequence[int]) -> int:
        """A constant of int32."""
        return self.constant(np.array(values, np.int32))

    # --- operators; each returns its output tensor

    def operator(
        self,
        operator: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        options: str | None = None,
        *,
        version: int = 1,
        **fields: Any,
    ) -> None:
        """Adds any operator; `options` names its options table, `fields` its entries."""
        node = schema.OperatorT()
        node.opcodeIndex = self._builder.operator_code(operator, version)
        node.inputs = np.array(inputs, np.int32)
        node.outputs = np.array(outputs, np.int32)
        if options is not None:
            node.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            node.builtinOptions = getattr(schema, f"{options}T")()
            for field, value in fields.items():
                assert hasattr(node.builtinOptions, field), (options, field)
                setattr(node.builtinOptions, field, value)
        self._graph.operators.append(node)

    def fully_connected(self, x: int, weights: int, bias: int | None, size: int) -> int:
        """x [1, n] times int8 or int4 weights [size, n], x quantised on the fly: [1, size].

        Activations get a zero point (`asymmetricQuantizeInputs`), as the converter chooses.
        """
        output = self.tensor([1, size])
        self.operator(
            Op.FULLY_CONNECTED,
            [x, weights, -1 if bias is None else bias],
            [output],
            "FullyConnectedOptions",
            version=9,
            asymmetricQuantizeInputs=True,
        )
        return output

    def add(self, a: int, b: int, shape: Sequence[int], type_: int = Type.FLOAT32) -> int:
        """a + b."""
        return self._binary(Op.ADD, "AddOptions", a, b, shape, type_)

    def subtract(self, a: int, b: int, shape: Sequence[int]) -> int:
        """a - b."""
        return self._binary(Op.SUB, "SubOptions", a, b, shape)

    def multiply(self, a: int, b: int, shape: Sequence[int]) -> int:
        """a * b, entry by entry."""
        return self._binary(Op.MUL, "MulOptions", a, b, shape)

    def sigmoid(self, x: int, shape: Sequence[int]) -> int:
        """1 / (1 + e^-x)."""
        return self._unary(Op.LOGISTIC, x, shape)

    def tanh(self, x: int, shape: Sequence[int]) -> int:
        """tanh x."""
        return self._unary(Op.TANH, x, shape)

    def floor(self, x: int, shape: Sequence[int]) -> int:
        """The largest whole number that is not above x."""
        return self._unary(Op.FLOOR, x, shape)

    def dequantize(self, x: int, shape: Sequence[int]) -> int:
        """Floats of an int8 tensor."""
        output = self.tensor(shape)
        self.operator(Op.DEQUANTIZE, [x], [output], version=2)
        return output

    def lookup(self, ids: int, table: int, columns: int) -> int:
        """Row `ids` [1] of an int8 table as floats [1, columns].

        GATHER then DEQUANTIZE of the one row, as the converter writes it. A hybrid
        EMBEDDING_LOOKUP runs too, but fails the verifier of the TFL dialect.
        """
        scale = self._graph.tensors[table].quantization.scale[0]
        row = self.tensor([1, columns], Type.INT8, scale=scale)
        self.operator(Op.GATHER, [table, ids], [row], "GatherOptions", version=2, axis=0)
        return self.dequantize(row, [1, columns])

    def gather_integer(self, values: int, index: int) -> int:
        """values[index]: int32 [n], [1] -> [1]."""
        output = self.tensor([1], Type.INT32)
        self.operator(Op.GATHER, [values, index], [output], "GatherOptions", axis=0)
        return output

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        """The same numbers in another shape."""
        output = self.tensor(shape)
        self.operator(
            Op.RESHAPE, [x, self.integers(shape)], [output], "ReshapeOptions", newShape=list(shape)
        )
        return output

    def drop_batch(self, tokens: int) -> int:
        """int32 [1, time] -> [time]. SQUEEZE, not RESHAPE: it refuses a batch other than 1."""
        output = self.tensor([1], Type.INT32, shape_signature=[-1])
        self.operator(Op.SQUEEZE, [tokens], [output], "SqueezeOptions", squeezeDims=[0])
        return output

    def interleave(self, a: int, b: int, size: int) -> int:
        """[1, size] twice -> [1, 2 size], taking turns."""
        pairs = self.tensor([1, size, 2])
        self.operator(Op.PACK, [a, b], [pairs], "PackOptions", valuesCount=2, axis=2)
        return self.reshape(pairs, [1, 2 * size])

    def slice(self, x: int, begin: Sequence[int], size: Sequence[int]) -> int:
        """A block of `x`."""
        output = self.tensor(size)
        self.operator(
            Op.SLICE, [x, self.integers(begin), self.integers(size)], [output], "SliceOptions"
        )
        return output

    def zeros(self, shape: Sequence[int]) -> int:
        """Zeros, filled in when the graph runs."""
        output = self.tensor(shape)
        zero = self.constant(np.array(0, np.float32))
        self.operator(Op.FILL, [self.integers(shape), zero], [output], "FillOptions")
        return output

    def softmax(self, x: int, shape: Sequence[int]) -> int:
        """Over the last axis."""
        output = self.tensor(shape)
        self.operator(Op.SOFTMAX, [x], [output], "SoftmaxOptions", beta=1.0)
        return output

    def top_k(self, x: int, k: int) -> tuple[int, int]:
        """`(values [1, k], indices int32 [1, k])` of x [1, n], largest first."""
        values, indices = self.tensor([1, k]), self.tensor([1, k], Type.INT32)
        self.operator(Op.TOPK_V2, [x, self.integers(k)], [values, indices], "TopKV2Options")
        return values, indices

    def size_of(self, vector: int) -> int:
        """Length of a vector: int32 [1]."""
        output = self.tensor([1], Type.INT32)
        self.operator(Op.SHAPE, [vector], [output], "ShapeOptions", outType=Type.INT32)
        return output

    def less(self, a: int, b: int) -> int:
        """a < b."""
        return self._compare(Op.LESS, "LessOptions", a, b)

    def at_least(self, a: int, b: int) -> int:
        """a >= b."""
        return self._compare(Op.GREATER_EQUAL, "GreaterEqualOptions", a, b)

    def not_equal(self, a: int, b: int) -> int:
        """a != b."""
        return self._compare(Op.NOT_EQUAL, "NotEqualOptions", a, b)

    def both(self, a: int, b: int) -> int:
        """a and b."""
        return self._compare(Op.LOGICAL_AND, "LogicalAndOptions", a, b)

    def select(
        self, condition: int, a: int, b: int, shape: Sequence[int], type_: int = Type.FLOAT32
    ) -> int:
        """`a` where `condition` [1], else `b`."""
        output = self.tensor(shape, type_)
        self.operator(Op.SELECT_V2, [condition, a, b], [output], "SelectV2Options")
        return output

    def while_loop(self, inputs: Sequence[int], condition: int, body: int) -> list[int]:
        """Runs subgraph `body` while subgraph `condition` holds; outputs shaped as the inputs."""
        outputs = []
        for index in inputs:
            like = self._graph.tensors[index]
            outputs.append(self.tensor(like.shape, like.type, shape_signature=like.shapeSignature))
        self.operator(
            Op.WHILE,
            inputs,
            outputs,
            "WhileOptions",
            condSubgraphIndex=condition,
            bodySubgraphIndex=body,
        )
        return outputs

    def _unary(self, operator: int, x: int, shape: Sequence[int]) -> int:
        output = self.tensor(shape)
        self.operator(operator, [x], [output])
        return output

    def _binary(
        self,
        operator: int,
        options: str,
        a: int,
        b: int,
        shape: Sequence[int],
        type_: int = Type.FLOAT32,
    ) -> int:
        output = self.tensor(shape, type_)
        self.operator(operator, [a, b], [output], options)
        return output

    def _compare(self, operator: int, options: str, a: int, b: int) -> int:
        output = self.tensor([1], Type.BOOL)
        self.operator(operator, [a, b], [output], options)
        return output


def _empty_model() -> schema.ModelT:
    model = schema.ModelT()
    model.version = 3
    model.operatorCodes = []
    model.subgraphs = []
    model.signatureDefs = []
    model.metadata = []
    model.buffers = [schema.BufferT()]  # buffer 0: "no data", by convention
    return model


def model_to_bytes(model: schema.ModelT) -> bytes:
    """Serialises a model object, with the data of every buffer aligned to 16 bytes."""
    model = copy.copy(model)
    model.buffers = [_AlignedBuffer(buffer.data) for buffer in model.buffers]
    builder = flatbuffers.Builder(1 << 21)
    builder.Finish(model.Pack(builder), file_identifier=FILE_IDENTIFIER)
    return bytes(builder.Output())


class _AlignedBuffer:
    """Packs a buffer at the alignment the schema demands; the generated `BufferT.Pack` does not."""

    def __init__(self, data: np.ndarray | None):
        self._data = b"" if data is None else bytes(data)

    def Pack(self, builder: flatbuffers.Builder) -> int:  # called by `ModelT.Pack`
        data = None
        if self._data:
            builder.StartVector(1, len(self._data), BUFFER_ALIGNMENT)
            builder.head -= len(self._data)
            builder.Bytes[builder.head : builder.head + len(self._data)] = self._data
            data = builder.EndVector()
        schema.BufferStart(builder)
        if data is not None:
            schema.BufferAddData(builder, data)
        return schema.BufferEnd(builder)


def name_signature_tensors(model: schema.ModelT) -> None:
    """Names the inputs and outputs of signatures "signature/name", which importers rely on."""
    for definition in model.signatureDefs or []:
        tensors = model.subgraphs[definition.subgraphIndex].tensors
        for entry in [*definition.inputs, *definition.outputs]:
            tensor = tensors[entry.tensorIndex]
            tensor.name = f"{_text(definition.signatureKey)}/{_text(entry.name)}"


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def _named_tensor(name: str, tensor: int) -> schema.TensorMapT:
    entry = schema.TensorMapT()
    entry.name = name
    entry.tensorIndex = tensor
    return entry
