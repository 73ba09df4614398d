"""`[fine_tuning]`: trains a general model on users' text without forgetting general language.

Source: Popov et al. 2018, sections 2.1 to 2.3, https://arxiv.org/abs/1712.07473. The general model
itself is `model.initial_model`.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage.checks import OpenShare, Share


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retraining(Table, path="fine_tuning.method"):
    """Ordinary local training."""

    type: Literal["retraining"] = "retraining"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RehearsalMethod(Table, path="fine_tuning.method"):
    """Local training on a mixture of general messages and the client's own messages.

    Attributes:
      portion: Share of general messages among the messages of a client in a round, in (0, 1).
    """

    type: Literal["rehearsal"] = "rehearsal"
    portion: OpenShare = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningWithoutForgetting(Table, path="fine_tuning.method"):
    """Local training with the received model's predictions as further targets (eqs. 1-2).

    Attributes:
      true_label_weight: lambda in [0, 1], weight of the cross-entropy with the true words. The
        cross-entropy with the received model's predictions has weight 1 - lambda.
    """

    type: Literal["lwf"] = "lwf"
    true_label_weight: Share = 0.5


Method: TypeAlias = Retraining | RehearsalMethod | LearningWithoutForgetting


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(Table, path="fine_tuning"):
    """How clients and server preserve the knowledge of the general model.

    Attributes:
      general_store: Client store of the general corpus, encoded with the same vocabulary; "" means
        none. With a general store, every evaluation uses both populations. Rehearsal and the
        server's transfer draw messages from its train population.
      user_weight: Weight of the user population in metrics named `trade_off/...`, in [0, 1]. The
        general population has weight 1 - `user_weight`, so 0.5 gives the mean. Only for runs with a
        general store.
      method: Training method of a client, chosen by `type`.
    """

    general_store: str = ""
    user_weight: Share = 0.5
    method: Method = dataclasses.field(default_factory=Retraining)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            bool(self.general_store) or not isinstance(self.method, RehearsalMethod),
            "general_store",
            "must be a client store, which rehearsal reads",
        )
