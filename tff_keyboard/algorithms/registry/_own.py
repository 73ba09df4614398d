"""A client algorithm that is not in this package."""

import dataclasses
from typing import Any, ClassVar

from tff_keyboard.parts.aggregator import KEEPS_SENSITIVITY, SENSITIVITY_IS_UNKNOWN
from tff_keyboard.parts.client_algorithm import ClientAlgorithm, ProcessParts
from tff_keyboard.parts.own_part import OwnPart
from tff_keyboard.storage.checks import FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnClient(ClientAlgorithm, OwnPart):
    """A client algorithm or a whole learning process of the user.

    The part returns a `tff.learning.templates.LearningProcess`, or a `ClientWorkProcess`, which is
    composed with the aggregator and the server optimizer of the config. Parameters with these names
    get values of the run: `model_fn`, `aggregator` (with its protection), `server_optimizer`,
    `seed`, `clients_per_round`, `vocabulary_size`, and the keys below. A mechanism of privacy
    requires the attribute `keeps_sensitivity` = True, see docs/own_parts.md.

    Attributes:
      epochs: Number of times that the messages of a client are in its data of a round.
    """

    GROUP: ClassVar[str] = "tff_keyboard.client_algorithms"
    RUN_VALUES: ClassVar[tuple[str, ...]] = (
        "model_fn",
        "aggregator",
        "server_optimizer",
        "seed",
        "clients_per_round",
        "vocabulary_size",
        "batch_size",
        "max_examples",
        "epochs",
    )
    wrap_problem: ClassVar[str] = "it is a part of yours, which they cannot change."

    epochs: FromOne = 1

    @property
    def privacy_problem(self) -> str:  # type: ignore[override]
        """See base class."""
        if self.problem or self.declares(KEEPS_SENSITIVITY):
            return ""
        return SENSITIVITY_IS_UNKNOWN

    def build(self, parts: ProcessParts) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        from tff_keyboard.algorithms.composition import compose_process
        from tff_keyboard.execution.graph_function import leaf_types

        process = self.call(
            {
                "model_fn": parts.model_fn,
                "aggregator": parts.aggregator,
                "server_optimizer": parts.server_optimizer,
                "seed": parts.run.seed,
                "clients_per_round": parts.run.clients_per_round,
                "vocabulary_size": parts.vocabulary_size,
                "batch_size": self.batch_size,
                "max_examples": self.max_examples,
                "epochs": self.epochs,
            }
        )
        kinds = (tff.learning.templates.LearningProcess, tff.learning.templates.ClientWorkProcess)
        kind = "a `tff.learning.templates.LearningProcess` or `ClientWorkProcess`"
        self.must_be(isinstance(process, kinds), kind, process)
        self.require_fixed_shapes(leaf_types(process.initialize.type_signature.result.member))
        if isinstance(process, tff.learning.templates.LearningProcess):
            return process
        with self.errors():
            return compose_process(
                parts.model_fn,
                client_work=process,
                server_optimizer=parts.server_optimizer,
                aggregator=parts.aggregator,
            )
