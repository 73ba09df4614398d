"""The client algorithm "fedprox": FedAvg with a term that holds clients near the server's model.

    client k:  SGD on  h_k(w) = F_k(w) + mu / 2 ||w - w^t||^2,   w^t the server's weights
               so each step adds mu (w - w^t) to the gradient of its batch
    server:    as FedAvg

With mu = 0 it is FedAvg. The first step of a client is equal, because w = w^t.

`tff.learning.algorithms.build_weighted_fed_prox` of TFF 0.87 is not used: it adds mu (w^t - w),
which drives clients away from the server's model (tested in
`tests/training/test_proximal_sign.py`).

Source: Li et al. 2020, eq. 2 and Algorithm 2, https://arxiv.org/abs/1812.06127. Algorithm 2 draws
clients in proportion to their data and averages them equally. Here they are drawn as
`train.client_sampling` says, and weigh as `aggregation.client_weighting` says.
"""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.algorithms.registry._local_sgd import LocalSgdClient, build_averaging
from tff_keyboard.parts.client_algorithm import ProcessParts
from tff_keyboard.storage.checks import NotNegative


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedProxClient(LocalSgdClient):
    """FedProx: "fedavg" with a term that holds clients near the server's model (Li et al. 2020).

    The gradient of a step is clipped together with the proximal term.

    Attributes:
      proximal_strength: Strength of the proximal term (mu in the paper). 0 is FedAvg. Must be below
        2 / `learning_rate`.
    """

    reports_touched_rows: ClassVar[bool] = True

    type: Literal["fedprox"] = "fedprox"
    proximal_strength: NotNegative = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            self.learning_rate * self.proximal_strength < 2,
            "proximal_strength",
            f"must be < 2 / `{self.PATH}.learning_rate` = {2 / self.learning_rate:g}",
            "With more, the steps of the proximal term grow without bound.",
        )

    def build(self, parts: ProcessParts) -> Any:
        """See base class."""
        return build_averaging(self, parts, proximal_strength=self.proximal_strength)
