"""The server optimizer "fedadagrad".

Source: Reddi et al. 2021, https://arxiv.org/abs/2003.00295. The defaults were tuned for next-word
prediction on StackOverflow, with a client learning rate of 0.316 and accumulators from 0.
"""

import dataclasses
from typing import Any, Literal

from tff_keyboard.parts.server_optimizer import OptimizerOptions, ServerOptimizer
from tff_keyboard.storage.checks import Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdagrad(OptimizerOptions, ServerOptimizer):
    """Adagrad on the server: divides by the square root of the sum of all squared updates.

    Attributes:
      epsilon: Added to the square root of the sum, to avoid division by zero (tau in Reddi et al.
        2021).
    """

    type: Literal["fedadagrad"] = "fedadagrad"
    learning_rate: Positive = 0.0316
    epsilon: Positive = 1e-4

    def build(self) -> Any:
        """See base class."""
        from tff_keyboard.algorithms.optimizers.accumulating import AdagradOptimizer

        return AdagradOptimizer(self.learning_rate, self.epsilon)
