"""A round cut into parts: what each computes, and the bytes in which that can travel.

Clients are lists, or sequences that know how to make themselves (`MadeWhereUsed`): those hold names
of clients, are cut like lists, and become data only where a part is computed.
"""

import copyreg
import dataclasses
import functools
import hashlib
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import tensorflow_federated as tff

from tff_keyboard.program.engines import engine
from tff_keyboard.program.workers.native_compiler import to_native


def _struct_as_elements(struct: tff.structure.Struct) -> tuple[Any, ...]:
    return tff.structure.Struct, (list(tff.structure.iter_elements(struct)),)


# As it is a Struct can be pickled, but the way back never ends: it asks itself for its names.
copyreg.pickle(tff.structure.Struct, _struct_as_elements)


@runtime_checkable
class MadeWhereUsed(Protocol):
    """Clients by name. Small, pickles, and slices into the same kind."""

    def __len__(self) -> int: ...

    def __getitem__(self, key: slice, /) -> "MadeWhereUsed": ...

    def make(self) -> Sequence[Any]:
        """The clients' data, as a list at clients takes it."""


@dataclasses.dataclass(frozen=True)
class _Hole:
    """Stands in an argument for clients: the position of theirs in a part."""

    position: int


def cut(value: Any, type_spec: tff.Type, num_parts: int) -> tuple[Any, list[list[Any]]]:
    """An argument without its clients, as `fill` takes it, and `num_parts` runs of its clients.

    Of each part there are the clients of each list in the argument. A part without clients adds
    nothing and is left out; of an empty round one part is left.
    """
    columns: list[list[Any]] = []
    template = _template(value, type_spec, num_parts, columns)
    parts = [list(part) for part in zip(*columns, strict=True)]
    return template, [part for part in parts if any(map(len, part))] or parts[:1]


def fill(template: Any, part: Sequence[Any]) -> Any:
    """The argument with the clients of a part, made if need be."""
    if isinstance(template, _Hole):
        clients = part[template.position]
        return clients.make() if isinstance(clients, MadeWhereUsed) else clients
    if isinstance(template, tff.structure.Struct):
        return tff.structure.Struct(
            [(name, fill(item, part)) for name, item in tff.structure.iter_elements(template)]
        )
    return template


def is_at_clients(type_spec: tff.Type) -> bool:
    """Whether it is the type of something at clients."""
    return isinstance(type_spec, tff.FederatedType) and type_spec.placement is tff.CLIENTS


def _template(value: Any, type_spec: tff.Type, num_parts: int, columns: list[list[Any]]) -> Any:
    if isinstance(type_spec, tff.StructType):
        elements = tff.structure.iter_elements(tff.structure.from_container(value))
        types = tff.structure.iter_elements(type_spec)
        leaves = [
            (name, _template(element, element_type, num_parts, columns))
            for (_, element), (name, element_type) in zip(elements, types, strict=True)
        ]
        return tff.structure.Struct(leaves)
    if is_at_clients(type_spec) and not type_spec.all_equal:
        cuts = [round(i * len(value) / num_parts) for i in range(num_parts + 1)]
        columns.append([value[cuts[i] : cuts[i + 1]] for i in range(num_parts)])
        return _Hole(len(columns) - 1)
    return value


class PortableComputation:
    """A computation that pickles as its bytes, and is read from them once a process."""

    def __init__(self, computation: tff.Computation):
        self.computation = computation

    @functools.cached_property
    def content(self) -> bytes:
        native = to_native(self.computation)
        return bytes(tff.framework.serialize_computation(native).SerializeToString())

    def __reduce__(self) -> tuple[Any, ...]:
        return _from_bytes, (self.content,)


@functools.lru_cache(maxsize=64)
def _from_bytes(content: bytes) -> PortableComputation:
    from tensorflow_federated.proto.v0 import computation_pb2

    proto = computation_pb2.Computation.FromString(content)
    return PortableComputation(tff.framework.deserialize_computation(proto))


class ClientsFunction:
    """An `engine.Function`: what the clients of some parts come to, folded from left to right.

    An item is a list of parts as `cut` gives them; what is shared is the template of `cut`.
    """

    def __init__(self, up_to_merge: PortableComputation, merge: PortableComputation):
        self._up_to_merge = up_to_merge
        self._merge = merge

    @functools.cached_property
    def key(self) -> str:
        """SHA-256 of what both computations compute."""
        return hashlib.sha256(self._up_to_merge.content + self._merge.content).hexdigest()

    def __call__(self, place: engine.Place, template: Any, parts: Sequence[Any]) -> Any:
        merged = None
        for i, part in enumerate(parts):
            argument = fill(template, part)
            result = place.context.invoke(self._up_to_merge.computation, argument)
            merged = result if i == 0 else self.merge(place.context, merged, result)
        return merged

    def merge(self, context: tff.framework.SyncContext, first: Any, second: Any) -> Any:
        """Two results as one."""
        both = tff.structure.Struct.unnamed(first, second)
        return context.invoke(self._merge.computation, both)
