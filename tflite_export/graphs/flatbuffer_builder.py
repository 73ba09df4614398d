"""Writes `.tflite` files tensor by tensor, with TensorFlow's own schema classes.

It is for graphs that the converter cannot express: tables with one scale a row, and training. A
`ModelBuilder` owns buffers, operator codes and signatures. A `SubgraphBuilder` owns tensors and
operators, and has one short method for each operator in use.

Buffers with equal bytes are stored once, across subgraphs. They start at multiples of 16 bytes in
the file, because kernels read weights from the mapped file with vector loads.
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
    """A model under construction: an empty model, or a converted one that is changed."""

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
        """Returns a builder for an existing subgraph, to add tensors and operators."""
        return SubgraphBuilder(self, index)

    def buffer(self, data: bytes) -> int:
        """Returns the index of the buffer with these bytes, and adds it if needed."""
        if data not in self._buffers:
            self._buffers[data] = self._add_buffer(data)
        return self._buffers[data]

    def operator_code(self, operator: int, version: int) -> int:
        """Returns the index of the operator in this version, and adds it if needed."""
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
        """Attaches named bytes to the model."""
        entry = schema.MetadataT()
        entry.name = name
        entry.buffer = self._add_buffer(data)
        self.model.metadata.append(entry)

    def to_bytes(self) -> bytes:
        """Returns the finished file."""
        return model_to_bytes(self.model)

    def _add_buffer(self, data: bytes) -> int:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(data, np.uint8)
        self.model.buffers.append(buffer)
        return len(self.model.buffers) - 1


class SubgraphBuilder:
    """A subgraph under construction. Tensors are identified by their index, an int."""

    def __init__(self, builder: ModelBuilder, index: int):
        self.index = index
        self._builder = builder
        self._constants: dict[Any, int] = {}
        self._graph = builder.model.subgraphs[index]

    def set_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Sets the tensors that the caller provides and receives."""
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
        """Adds a tensor and returns its index.

        `shape_signature` has -1 for each size that is only known at run time.
        """
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

    def constant(self, values: np.ndarray, scale: float | None = None) -> int:
        """Returns a tensor with data. Equal constants share one tensor."""
        type_ = _TYPES[values.dtype]
        data = values.tobytes()  # in C order, whatever the strides
        key = (data, type_, values.shape, scale)
        if key not in self._constants:
            self._constants[key] = self.tensor(
                values.shape, type_, buffer=self._builder.buffer(data), scale=scale
            )
        return self._constants[key]

    def integers(self, values: int | Sequence[int]) -> int:
        """Returns a constant of int32."""
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
        """Adds an operator.

        `options` names its options table, and `fields` has the entries of that table.
        """
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
        """Multiplies x [1, n] by int8 weights [size, n], and quantises x on the fly: [1, size].

        Activations get a zero point (`asymmetricQuantizeInputs`), as in the converter's output.
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
        """Computes a + b."""
        return self._binary(Op.ADD, "AddOptions", a, b, shape, type_)

    def subtract(self, a: int, b: int, shape: Sequence[int]) -> int:
        """Computes a - b."""
        return self._binary(Op.SUB, "SubOptions", a, b, shape)

    def multiply(self, a: int, b: int, shape: Sequence[int]) -> int:
        """Computes a * b elementwise."""
        return self._binary(Op.MUL, "MulOptions", a, b, shape)

    def sigmoid(self, x: int, shape: Sequence[int]) -> int:
        """Computes 1 / (1 + e^-x)."""
        return self._unary(Op.LOGISTIC, x, shape)

    def tanh(self, x: int, shape: Sequence[int]) -> int:
        """Computes the hyperbolic tangent."""
        return self._unary(Op.TANH, x, shape)

    def dequantize(self, x: int, shape: Sequence[int]) -> int:
        """Converts an int8 tensor to floats."""
        output = self.tensor(shape)
        self.operator(Op.DEQUANTIZE, [x], [output], version=2)
        return output

    def lookup(self, ids: int, table: int, columns: int) -> int:
        """Looks up row `ids` [1] of an int8 table as floats [1, columns].

        GATHER, then DEQUANTIZE of the one row, as in the converter's output. A hybrid
        EMBEDDING_LOOKUP runs too, but fails the verifier of the TFL dialect.
        """
        scale = self._graph.tensors[table].quantization.scale[0]
        row = self.tensor([1, columns], Type.INT8, scale=scale)
        self.operator(Op.GATHER, [table, ids], [row], "GatherOptions", version=2, axis=0)
        return self.dequantize(row, [1, columns])

    def gather_integer(self, values: int, index: int) -> int:
        """Looks up values[index]: int32 [n], [1] -> [1]."""
        output = self.tensor([1], Type.INT32)
        self.operator(Op.GATHER, [values, index], [output], "GatherOptions", axis=0)
        return output

    def reshape(self, x: int, shape: Sequence[int]) -> int:
        """Reshapes `x`."""
        output = self.tensor(shape)
        self.operator(
            Op.RESHAPE, [x, self.integers(shape)], [output], "ReshapeOptions", newShape=list(shape)
        )
        return output

    def drop_batch(self, tokens: int) -> int:
        """Reshapes int32 [1, time] to [time].

        Uses SQUEEZE instead of RESHAPE, because SQUEEZE rejects a batch size other than 1.
        """
        output = self.tensor([1], Type.INT32, shape_signature=[-1])
        self.operator(Op.SQUEEZE, [tokens], [output], "SqueezeOptions", squeezeDims=[0])
        return output

    def slice(self, x: int, begin: Sequence[int], size: Sequence[int]) -> int:
        """Cuts a block out of `x`."""
        output = self.tensor(size)
        self.operator(
            Op.SLICE, [x, self.integers(begin), self.integers(size)], [output], "SliceOptions"
        )
        return output

    def zeros(self, shape: Sequence[int]) -> int:
        """Returns a tensor of zeros that is filled when the graph runs."""
        output = self.tensor(shape)
        zero = self.constant(np.array(0, np.float32))
        self.operator(Op.FILL, [self.integers(shape), zero], [output], "FillOptions")
        return output

    def softmax(self, x: int, shape: Sequence[int]) -> int:
        """Computes the softmax over the last axis."""
        output = self.tensor(shape)
        self.operator(Op.SOFTMAX, [x], [output], "SoftmaxOptions", beta=1.0)
        return output

    def top_k(self, x: int, k: int) -> tuple[int, int]:
        """Returns `(values [1, k], indices int32 [1, k])` of x [1, n], largest first."""
        values, indices = self.tensor([1, k]), self.tensor([1, k], Type.INT32)
        self.operator(Op.TOPK_V2, [x, self.integers(k)], [values, indices], "TopKV2Options")
        return values, indices

    def size_of(self, vector: int) -> int:
        """Returns the length of a vector, int32 [1]."""
        output = self.tensor([1], Type.INT32)
        self.operator(Op.SHAPE, [vector], [output], "ShapeOptions", outType=Type.INT32)
        return output

    def less(self, a: int, b: int) -> int:
        """Computes a < b."""
        return self._compare(Op.LESS, "LessOptions", a, b)

    def at_least(self, a: int, b: int) -> int:
        """Computes a >= b."""
        return self._compare(Op.GREATER_EQUAL, "GreaterEqualOptions", a, b)

    def not_equal(self, a: int, b: int) -> int:
        """Computes a != b."""
        return self._compare(Op.NOT_EQUAL, "NotEqualOptions", a, b)

    def both(self, a: int, b: int) -> int:
        """Computes a and b."""
        return self._compare(Op.LOGICAL_AND, "LogicalAndOptions", a, b)

    def select(
        self, condition: int, a: int, b: int, shape: Sequence[int], type_: int = Type.FLOAT32
    ) -> int:
        """Returns `a` if `condition` [1] is true, else `b`."""
        output = self.tensor(shape, type_)
        self.operator(Op.SELECT_V2, [condition, a, b], [output], "SelectV2Options")
        return output

    def while_loop(self, inputs: Sequence[int], condition: int, body: int) -> list[int]:
        """Runs subgraph `body` while subgraph `condition` is true.

        Outputs have the shapes of the inputs.
        """
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
        """Adds an operator on one tensor, and returns its output of this shape."""
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
        """Adds an operator on two tensors, and returns its output of this shape."""
        output = self.tensor(shape, type_)
        self.operator(operator, [a, b], [output], options)
        return output

    def _compare(self, operator: int, options: str, a: int, b: int) -> int:
        """Adds a comparison of two numbers, and returns its output [1]."""
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
    """A buffer that packs itself at the alignment that the schema demands.

    The generated `BufferT.Pack` does not align.
    """

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
    """Names the inputs and outputs of signatures "signature/name", as importers expect."""
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
