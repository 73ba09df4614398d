"""A TFF learning process whose rounds run in this process, or on the nodes of an engine."""

from collections.abc import Sequence
from typing import Any

import tensorflow_federated as tff

from tff_keyboard.algorithms.client_packing.local_context import LocalContext
from tff_keyboard.algorithms.client_packing.round_form import CannotPackError, RoundForm
from tff_keyboard.execution.engine import Engine, LocalEngine
from tff_keyboard.execution.graph_function import leaves_of


class PackedProcess:
    """A learning process whose `next` takes packs of clients. Otherwise it equals `process`.

    States, metrics and results are equal to the ones of TFF's runtime except for the order of
    floating-point sums. It is not a `tff.learning.templates.LearningProcess`, which requires one
    dataset per client.

    Args:
      process: A learning process. Each of its clients holds one sequence and returns only values
        that are aggregated.
      engine: Computes the packs. None means threads of this process.

    Attributes:
      element_spec: Spec of an element of a client's sequence, for `round_form.make_pack`.
      shares_row_work: Whether the clients of a pack share work (`execution/row_work.py`), so that
        larger packs are faster.

    Raises:
      CannotPackError: The process has another form.
    """

    def __init__(
        self, process: tff.learning.templates.LearningProcess, engine: Engine | None = None
    ):
        self._form = RoundForm(process.next)
        if self._form.element_spec is None:
            raise CannotPackError("Its clients have no sequences.")
        self.element_spec = self._form.element_spec
        self.shares_row_work = self._form.shares_row_work
        self._engine = engine or LocalEngine()
        self._state_type = process.next.type_signature.parameter[0].member
        context = LocalContext(self._engine)
        self.initialize = context.function(process.initialize)
        self.get_model_weights = context.function(process.get_model_weights)
        self.set_model_weights = context.function(process.set_model_weights)
        self.get_hparams = context.function(process.get_hparams)
        self.set_hparams = context.function(process.set_hparams)

    def next(self, state: Any, packs: Sequence[Any]) -> Any:
        """Computes one round.

        Args:
          state: State before the round.
          packs: Results of `round_form.make_pack`, or objects with a `make()` that returns one.

        Returns:
          A `LearningProcessOutput`.
        """
        return self._form(self._engine, leaves_of(state, self._state_type), packs)

    def pop_aggregation_seconds(self) -> float:
        """Returns the seconds of merging and of the server since the last call."""
        return self._form.pop_aggregation_seconds()
