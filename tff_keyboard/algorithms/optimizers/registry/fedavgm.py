"""The server optimizer "fedavgm"."""

import dataclasses
from typing import Any, Literal

from tff_keyboard.parts.server_optimizer import OptimizerOptions, ServerOptimizer
from tff_keyboard.storage.checks import Fraction


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgM(OptimizerOptions, ServerOptimizer):
    """SGD with momentum on the server (Hsu et al. 2019, https://arxiv.org/abs/1909.06335).

    Attributes:
      momentum: Momentum of the server; 0 means none.
      nesterov: Whether the momentum is Nesterov's. Hard et al. 2018 use it with learning rate 1.0
        and momentum 0.9.
    """

    type: Literal["fedavgm"] = "fedavgm"
    momentum: Fraction = 0.9
    nesterov: bool = True

    def build(self) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        from tff_keyboard.algorithms.optimizers.accumulating import NesterovSGD

        if self.nesterov and self.momentum:
            return NesterovSGD(self.learning_rate, self.momentum)
        return tff.learning.optimizers.build_sgdm(self.learning_rate, self.momentum or None)
