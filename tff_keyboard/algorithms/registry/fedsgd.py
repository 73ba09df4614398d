"""The client algorithm "fedsgd"."""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.parts.client_algorithm import ClientAlgorithm, ProcessParts


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedSgdClient(ClientAlgorithm):
    """Computes the mean gradient over the client's messages. The client sends this gradient."""

    wrap_problem: ClassVar[str] = "attackers change the local training, and it has none."
    trains_locally: ClassVar[bool] = False
    required_weighting: ClassVar[str] = "tokens"
    required_weighting_reason: ClassVar[str] = "the federated gradient is a mean over tokens."

    type: Literal["fedsgd"] = "fedsgd"

    def build(self, parts: ProcessParts) -> Any:
        """See base class."""
        from tff_keyboard.algorithms.fed_sgd import build_fed_sgd

        return build_fed_sgd(
            parts.model_fn,
            server_optimizer=parts.server_optimizer,
            aggregator=parts.aggregator,
        )
