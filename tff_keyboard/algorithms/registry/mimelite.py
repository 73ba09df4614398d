"""The client algorithm "mimelite": local steps with the momentum of the server.

The server has the state of an optimizer, here the momentum m of SGD. Clients get it with the model,
use it in each step, and do not change it:

    client k:  y_k <- w, then y_k <- y_k - client_lr (g + beta m) for the gradient g of each batch
               sends w - y_k, and the gradient G_k of its mean loss at w
    server:    m <- beta m + sum_k (n_k / n) G_k
               w <- w - server_optimizer(sum_k (n_k / n) (w - y_k))

Both sums pass the steps of `[aggregation]`, each with a state of its own. With beta = 0 it is
FedAvg. TFF's own builder composes the process (`tff.learning.algorithms.build_weighted_mime_lite`).

Source: Karimireddy et al. 2020, Algorithm 1 (MimeLite) with SGD and momentum,
https://arxiv.org/abs/2008.03606. The paper averages: its client steps along (1 - beta) g + beta m,
and its m is ours times 1 - beta. So its step size is our `learning_rate` divided by 1 - beta. Its
server takes the mean of the clients' models: `server.type` = "fedavg".
"""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.algorithms.registry._local_sgd import LocalSgdClient
from tff_keyboard.parts.client_algorithm import ProcessParts
from tff_keyboard.storage.checks import Fraction, Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class MimeLiteClient(LocalSgdClient):
    """MimeLite: clients use the momentum of the server in their steps (Karimireddy et al. 2020).

    A client gets the momentum in addition to the model, and sends the gradient at the server's
    model in addition to its update. Both pass `[aggregation]`. With `server.type` = "fedavg" it is
    the algorithm of the paper. The default, "fedavgm", has a momentum of its own.

    Attributes:
      learning_rate: Learning rate of the client's steps: with momentum, 1 - momentum times the step
        size of the paper.
      momentum: Factor by which the momentum of the server decays in a round (beta in the paper). 0
        is FedAvg.
      gradient_clip_norm: Bound on the L2 norm of the gradient of a batch, without the momentum, and
        of the aggregated gradient that changes the momentum; 0 means no bound.
    """

    privacy_problem: ClassVar[str] = (
        "each client also sends the gradient at the server's model, which the mechanism does not "
        "clip and to which it adds no noise. Use 'fedavg' or 'fedprox'."
    )
    wrap_problem: ClassVar[str] = (
        "they would change the gradient that changes the server's momentum, too, which is out of "
        "their reach here."
    )
    models_up: ClassVar[int] = 2

    type: Literal["mimelite"] = "mimelite"
    learning_rate: Positive = 0.05
    momentum: Fraction = 0.9

    @property
    def models_down(self) -> int:
        """See base class. The momentum is of the size of the model."""
        return 2 if self.momentum else 1

    def build(self, parts: ProcessParts) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        from tff_keyboard.algorithms.composition import LOOP
        from tff_keyboard.algorithms.optimizers.optimizers import build_client_optimizer

        weighting = tff.learning.ClientWeighting
        return tff.learning.algorithms.build_weighted_mime_lite(
            parts.model_fn,
            build_client_optimizer(self),
            parts.server_optimizer,
            client_weighting=weighting.UNIFORM if parts.uniform_weights else weighting.NUM_EXAMPLES,
            model_aggregator=parts.aggregator,
            full_gradient_aggregator=parts.aggregator,
            loop_implementation=LOOP,
        )
