"""Options of the client algorithms whose clients take steps of SGD."""

import dataclasses
from typing import Any

from tff_keyboard.parts.client_algorithm import ClientAlgorithm, ProcessParts
from tff_keyboard.parts.schedule import Constant, Schedule
from tff_keyboard.storage.checks import Fraction, FromOne, NotNegative, Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class LocalSgdClient(ClientAlgorithm):
    """The keys of algorithms whose clients take steps of SGD.

    Attributes:
      learning_rate: Learning rate of the client's SGD. The loss is the mean over the tokens of a
        batch, in nats.
      momentum: Momentum of the client's SGD. It starts at 0 in every round.
      gradient_clip_norm: Bound on the L2 norm of the gradient of a batch; 0 means no bound. Without
        a bound, the CIFG diverges with small cohorts and server momentum 0.9.
      epochs: Number of passes over the messages of the client in a round.
      schedule: How the learning rate changes from round to round.
    """

    learning_rate: Positive = 0.5
    momentum: Fraction = 0.0
    gradient_clip_norm: NotNegative = 1.0
    epochs: FromOne = 1
    schedule: Schedule = dataclasses.field(default_factory=Constant)


def build_averaging(
    client: LocalSgdClient, parts: ProcessParts, *, proximal_strength: float = 0.0
) -> Any:
    """Builds local SGD and the average of its updates, with the optimizer of a table.

    Args:
      client: The table `[client]`.
      parts: The other parts of the process.
      proximal_strength: See `build_fed_avg`.
    """
    from tff_keyboard.algorithms.client_training import TouchedTableRows
    from tff_keyboard.algorithms.fed_avg import build_fed_avg
    from tff_keyboard.algorithms.optimizers.optimizers import build_client_optimizer

    arguments: dict[str, Any] = {
        "aggregator": parts.aggregator,
        "client_optimizer": build_client_optimizer(client),
        "server_optimizer": parts.server_optimizer,
        "uniform_weights": parts.uniform_weights,
        "wrap_client_work": parts.wrap_client_work,
        "joined": parts.joined and parts.wrap_client_work is None,
    }
    if parts.build_rule_process is not None:
        return parts.build_rule_process(parts.model_fn, **arguments)
    touched_rows = None
    if parts.corrects_rows:
        touched_rows = TouchedTableRows(
            parts.vocabulary_size, lambda batch: (batch["x"], batch["y"])
        )
    return build_fed_avg(
        parts.model_fn,
        **arguments,
        touched_rows=touched_rows,
        proximal_strength=proximal_strength,
    )
