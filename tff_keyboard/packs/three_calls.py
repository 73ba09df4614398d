"""Rounds in packs whose clients are sent what they need of the state, and nothing else.

A round is three calls instead of one: the server prepares what clients need (weights, learning
rates, limits), the clients come to their total, the server updates its state with it. Momentum,
noise and counters never leave the server. Worth it where sending costs more than two calls: on a
cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff

from tff_keyboard.packs import compiler


class ThreeCallProcess(compiler.PackedProcess):
    """A `PackedProcess` in three calls, with the same results.

    Args and errors are those of `PackedProcess`.
    """

    def _compile(self, form: compiler.PackForm) -> None:
        self._form = form.map_reduce
        self._total = form.total_of_context()

    def next(self, state: Any, packs: Sequence[Any]) -> Any:
        """One round."""
        total = self._total(self._form.prepare(state), packs)
        output = self._form.update(state, (total, (), (), ()))  # no secure sums: three times ()
        found = tff.structure.from_container(output, recursive=True)
        return tff.types.type_to_py_container(found, self._result_type)
