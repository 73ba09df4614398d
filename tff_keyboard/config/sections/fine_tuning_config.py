"""`[fine_tuning]`: trains a general model on users' text without forgetting general language.

Source: Popov et al. 2018, sections 2.1 to 2.3, https://arxiv.org/abs/1712.07473. The general model
itself is `model.initial_model`.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.config.reading.checks import FromOne, NotNegative, OpenShare, Positive, Share
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retraining(Table, path="fine_tuning.method"):
    """Ordinary local training."""

    name: Literal["retraining"] = "retraining"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RehearsalMethod(Table, path="fine_tuning.method"):
    """General messages are mixed with the client's own.

    Attributes:
      portion: Share of the messages a client trains on in a round that are general, in (0, 1).
    """

    name: Literal["rehearsal"] = "rehearsal"
    portion: OpenShare = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningWithoutForgetting(Table, path="fine_tuning.method"):
    """The loss also asks for the predictions of the model received (eqs. 1-2).

    Attributes:
      true_label_weight: lambda in [0, 1], weight of the cross-entropy with the true words; that
        with the received model's predictions has the rest.
    """

    name: Literal["lwf"] = "lwf"
    true_label_weight: Share = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Averaging(Table, path="fine_tuning.server"):
    """The server aggregates deltas: `[server]` and `[aggregation]` say how."""

    name: Literal["averaging"] = "averaging"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transfer(Table, path="fine_tuning.server"):
    """The server trains its model on the average predictions of the clients' models (eq. 4).

    Simulation only: it needs to see individual models. `[server]` has no effect.

    Attributes:
      text: What it predicts on: "general" text, or text "generated" by the server's model.
      messages: Messages of it a round.
      epochs: Passes over them.
      batch_size: Messages in a batch of the server's training.
      learning_rate: SGD learning rate of the server's training.
      clip_norm: Bound on the L2 norm of its gradients; 0 means none.
    """

    name: Literal["transfer"] = "transfer"
    text: Literal["general", "generated"] = "general"
    messages: FromOne = 1000
    epochs: FromOne = 1
    batch_size: FromOne = 16
    learning_rate: Positive = 0.5
    clip_norm: NotNegative = 1.0


Method: TypeAlias = Retraining | RehearsalMethod | LearningWithoutForgetting
FineTuningServer: TypeAlias = Averaging | Transfer


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(Table, path="fine_tuning"):
    """What clients and server do to keep what the general model knew.

    Attributes:
      general_store: Client store of the general corpus, encoded with the same vocabulary; "" means
        none. With one, every evaluation is made on both populations. Rehearsal and the server's
        transfer draw on its train population.
      user_weight: Weight of the user population in metrics named `trade_off/...`, in [0, 1]; the
        general population has the rest. 0.5 makes them averages. Of runs with a general store.
      method: Work of a client, by `name`.
      server: What the server does with the clients' models, by `name`.
    """

    general_store: str = ""
    user_weight: Share = 0.5
    method: Method = dataclasses.field(default_factory=Retraining)
    server: FineTuningServer = dataclasses.field(default_factory=Averaging)

    def __post_init__(self) -> None:
        super().__post_init__()
        needs_text = isinstance(self.method, RehearsalMethod) or (
            isinstance(self.server, Transfer) and self.server.text == "general"
        )
        self.require(
            bool(self.general_store) or not needs_text,
            "general_store",
            "must name a client store: rehearsal and transfer on general text draw on it",
        )
