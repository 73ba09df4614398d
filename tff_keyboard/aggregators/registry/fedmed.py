"""The aggregator "fedmed"."""

import dataclasses
import math
from typing import Annotated, Any, ClassVar, Literal

from tff_keyboard.aggregators.registry._layered import (
    WEIGHTS_ARE_NOT_BOUNDED,
    LayeredAggregator,
)
from tff_keyboard.parts import calls
from tff_keyboard.parts.aggregator import AggregatorRun
from tff_keyboard.storage.checks import NotNegative, Range

CEIL_SLACK = 1e-9  # for fractions such as 0.8 * 10 = 8.000000000000002 in binary: still 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedMedConfig(LayeredAggregator):
    """FedMed: chooses in each round between FedAvg and adaptive weights (Wu et al. 2020).

    Attributes:
      top_fraction: Share of the cohort that contributes to the update: the clients with the lowest
        loss (beta in the paper). 1 uses all clients.
      mediation_threshold: Threshold for the change of the mean local loss between two rounds, in
        nats (epsilon in the paper). If the change is at least this large, the round uses adaptive
        weights; otherwise it uses the weights of FedAvg. 0 always uses adaptive weights. The
        default is the value of the paper.
      local_loss: Loss by which clients and rounds are compared. "after_training", as in the paper,
        is the loss of the trained model on the messages that it was trained on. Computing it takes
        a client a third more work. "during_training" is the mean loss over the batches of the
        training, and takes no further work.
    """

    factory: ClassVar[str] = "tff_keyboard.aggregators.fedmed.aggregator:FedMedFactory"
    averages: ClassVar[bool] = True
    privacy_problem: ClassVar[str] = WEIGHTS_ARE_NOT_BOUNDED
    secure_sum_problem: ClassVar[str] = (
        "topK and its weights need the loss and divergence of each client"
    )
    learning_process: ClassVar[str] = "tff_keyboard.algorithms.fedmed.process:build_fedmed"

    type: Literal["fedmed"] = "fedmed"
    top_fraction: Annotated[float, Range("in (0, 1]", lambda share: 0 < share <= 1)] = 1.0
    mediation_threshold: NotNegative = 0.1
    local_loss: Literal["during_training", "after_training"] = "after_training"

    @property
    def reported_loss(self) -> str:
        """See base class."""
        return self.local_loss

    @property
    def uses_all_clients(self) -> bool:
        """See base class."""
        return self.top_fraction == 1

    def top_count(self, clients: int) -> int:
        """Returns K = ceil(top_fraction * clients), at least 1 if there is a client.

        >>> [FedMedConfig(top_fraction=0.8).top_count(m) for m in (0, 1, 5, 10, 11)]
        [0, 1, 4, 8, 9]
        """
        return min(clients, max(1, math.ceil(self.top_fraction * clients - CEIL_SLACK)))

    def build(self, run: AggregatorRun) -> Any:
        """See base class. The buffer of topK is for `clients_per_round` clients."""
        return calls.call(
            self.factory, self.arguments() | {"max_clients": run.clients_per_round}, vars(run)
        )

    def limit_weight(self, limit: Any, vocabulary_size: int) -> Any:
        """See base class. Bounds the loss and the divergences, too."""
        limit_of_fedmed = calls.load(
            "tff_keyboard.aggregators.fedmed.accumulator:limit_fedmed_weight"
        )
        return limit_of_fedmed(limit, vocabulary_size)
