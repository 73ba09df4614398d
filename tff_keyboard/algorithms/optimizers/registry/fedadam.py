"""The server optimizer "fedadam".

Source: Reddi et al. 2021, https://arxiv.org/abs/2003.00295. The defaults were tuned for next-word
prediction on StackOverflow, with a client learning rate of 0.316.
"""

import dataclasses
from typing import Any, Literal

from tff_keyboard.parts.server_optimizer import AdamOptions, ServerOptimizer
from tff_keyboard.storage.checks import Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdam(AdamOptions, ServerOptimizer):
    """Adam on the server."""

    type: Literal["fedadam"] = "fedadam"
    learning_rate: Positive = 0.01

    def build(self) -> Any:
        """See base class."""
        from tff_keyboard.algorithms.optimizers.optimizers import build_adam

        return build_adam(self)
