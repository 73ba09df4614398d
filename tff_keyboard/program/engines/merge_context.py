"""TFF's context over an engine: rounds in parts, in parallel, merged in a fixed order.

The clients of a round are cut into `num_subrounds` contiguous parts. Runs of `merge_block` of them
are items of the engine, folded from left to right where they are computed and then here. The result
is a function of these two numbers alone: not of where the parts were computed, what failed there,
or which was first. (TFF's `MergeableCompExecutionContext` merges in order of completion.) Several
parts need a computation with a single aggregation.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow_federated as tff

from tff_keyboard.program import errors
from tff_keyboard.program.engines.engine import Engine, Job
from tff_keyboard.program.engines.round_parts import (
    ClientsFunction,
    PortableComputation,
    cut,
    fill,
    is_at_clients,
)


class MergeContext(tff.framework.SyncContext):
    """Runs computations over clients on `engine`, which the caller closes, others on `context`.

    `pop_aggregation_seconds()` returns the time spent on merging and on what follows the
    aggregation since it was last asked.
    """

    def __init__(
        self,
        context: tff.framework.SyncContext,
        engine: Engine,
        num_subrounds: int,
        merge_block: int = 1,
    ):
        self._context = context
        self._engine = engine
        self._num_subrounds = num_subrounds
        self._merge_block = merge_block
        self._forms: dict[tff.Computation, tuple[ClientsFunction, tff.Computation]] = {}
        self._aggregation_seconds = 0.0

    def pop_aggregation_seconds(self) -> float:
        seconds, self._aggregation_seconds = self._aggregation_seconds, 0.0
        return seconds

    def invoke(self, comp: tff.Computation, arg: Any) -> Any:
        parameter = comp.type_signature.parameter
        if parameter is None or not tff.types.contains(parameter, is_at_clients):
            return self._context.invoke(comp, arg)
        function, after_merge = self._form(comp)
        template, parts = cut(arg, parameter, self._num_subrounds)
        starts = range(0, len(parts), self._merge_block)
        items = [parts[start : start + self._merge_block] for start in starts]
        results = self._engine.run(Job(function, template, items))
        with contextlib.closing(results):
            merged = self._fold(results, function)
        start = time.perf_counter()
        nobody = fill(template, [[] for _ in parts[0]])  # what follows does not look at clients
        output = self._context.invoke(after_merge, tff.structure.Struct.unnamed(nobody, merged))
        self._aggregation_seconds += time.perf_counter() - start
        return tff.types.type_to_py_container(output, comp.type_signature.result)

    def _fold(self, results: Iterator[tuple[int, Any]], function: ClientsFunction) -> Any:
        def merge(first: Any, second: Any) -> Any:
            start = time.perf_counter()
            merged = function.merge(self._context, first, second)
            self._aggregation_seconds += time.perf_counter() - start
            return merged

        return fold_in_order(results, merge)

    def _form(self, comp: tff.Computation) -> tuple[ClientsFunction, tff.Computation]:
        form = self._forms.get(comp)  # hashes the computation: once a call is enough
        if form is None:
            found = _mergeable_form(comp)
            parts = PortableComputation(found.up_to_merge), PortableComputation(found.merge)
            form = self._forms[comp] = ClientsFunction(*parts), found.after_merge
        return form


def fold_in_order(results: Iterator[tuple[int, Any]], merge: Callable[[Any, Any], Any]) -> Any:
    """`merge(merge(result 0, result 1), result 2)...`, each as soon as those before it are there.

    `results` are position and result, each position from 0 on once, in any order.

    >>> fold_in_order(iter([(2, "c"), (0, "a"), (1, "b")]), lambda x, y: f"({x}{y})")
    '((ab)c)'
    """
    waiting: dict[int, Any] = {}
    merged, following = None, 0
    for position, result in results:
        waiting[position] = result
        while following in waiting:
            found = waiting.pop(following)
            merged = found if following == 0 else merge(merged, found)
            following += 1
    return merged


def _mergeable_form(comp: tff.Computation) -> tff.framework.MergeableCompForm:
    if tff.types.contains(comp.type_signature.result, is_at_clients):
        raise errors.ProgramError(
            "A computation with results at the clients needs `num_workers` = 1 and "
            "`num_subrounds` = 1."
        )
    try:
        return tff.backends.native.compile_to_mergeable_comp_form(comp)
    except ValueError as error:
        raise errors.ProgramError(
            "This algorithm has aggregations that depend on one another and cannot be "
            "cut into sub-rounds. Set `num_workers` = 1 and `num_subrounds` = 1. "
            f"(TFF: {str(error).splitlines()[0]})"
        ) from error
