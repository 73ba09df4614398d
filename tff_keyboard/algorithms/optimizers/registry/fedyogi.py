"""The server optimizer "fedyogi".

Source: Reddi et al. 2021, https://arxiv.org/abs/2003.00295. The defaults were tuned for next-word
prediction on StackOverflow, with a client learning rate of 0.316 and accumulators from 0.
"""

import dataclasses
from typing import Any, Literal

from tff_keyboard.parts.server_optimizer import AdamOptions, ServerOptimizer
from tff_keyboard.storage.checks import Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedYogi(AdamOptions, ServerOptimizer):
    """Yogi on the server: as Adam, but the second moment decreases more slowly."""

    type: Literal["fedyogi"] = "fedyogi"
    learning_rate: Positive = 0.01

    def build(self) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        return tff.learning.optimizers.build_yogi(
            self.learning_rate,
            self.beta_1,
            self.beta_2,
            self.epsilon,
            initial_preconditioner_value=0.0,
        )
