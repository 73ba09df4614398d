"""Finds operations whose results a resumed run could not repeat.

Exact resume needs them to be absent, and so does privacy: a round that is computed again, with the
same clients, must give the same sum, because it has the same noise. The difference of two sums
under one noise would be free of noise.
"""

import re
from collections.abc import Iterator

import tensorflow as tf
from google.protobuf import any_pb2, message

_OPERATIONS = re.compile(
    r"(Random|TruncatedNormal|ParameterizedTruncatedNormal|Multinomial|Stateful(?!PartitionedCall)|PyFunc|EagerPyFunc"
    r"|Timestamp)"
)


def in_graph(graph: tf.compat.v1.GraphDef) -> list[str]:
    """Returns the names of operations that draw random numbers, read the clock, or call Python.

    Operations with a seed as their input (`tf.random.stateless_uniform`) can be repeated.
    """
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return [node.name for node in nodes if _OPERATIONS.match(node.op)]


def in_message(proto: message.Message) -> list[str]:
    """Returns the names of such operations in all graphs of a protocol buffer.

    in_message(tff.framework.serialize_computation(process.next))
    """
    return [name for graph in _graphs(proto) for name in in_graph(graph)]


def _graphs(proto: message.Message) -> Iterator[tf.compat.v1.GraphDef]:
    if isinstance(proto, any_pb2.Any):
        graph = tf.compat.v1.GraphDef()
        if proto.Unpack(graph):
            yield graph
        return
    for field, value in proto.ListFields():
        if field.message_type is not None:
            for part in value if field.label == field.LABEL_REPEATED else [value]:
                yield from _graphs(part)
