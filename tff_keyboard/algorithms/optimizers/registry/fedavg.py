"""The server optimizer "fedavg"."""

import dataclasses
from typing import Any, Literal

from tff_keyboard.parts.server_optimizer import OptimizerOptions, ServerOptimizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgServer(OptimizerOptions, ServerOptimizer):
    """SGD without momentum: w <- w - learning_rate * update.

    With learning rate 1, the new model is the mean of the clients' models.
    """

    type: Literal["fedavg"] = "fedavg"

    def build(self) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        return tff.learning.optimizers.build_sgdm(self.learning_rate)
