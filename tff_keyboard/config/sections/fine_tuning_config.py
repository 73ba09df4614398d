"""`[fine_tuning]`: trains a general model on users' text without forgetting general language.

Source: Popov et al. 2018, sections 2.1 to 2.3, https://arxiv.org/abs/1712.07473. The general model
itself is `model.initial_model`.
"""

import dataclasses
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.checks import (
    require,
    require_at_least,
    require_fraction,
    require_positive,
)
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retraining(Table):
    """Ordinary local training."""

    PATH: ClassVar[str] = "fine_tuning.method"

    name: Literal["retraining"] = "retraining"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RehearsalMethod(Table):
    """General messages are mixed with the client's own.

    Attributes:
      portion: Share of the messages a client trains on in a round that are general, in (0, 1).
    """

    PATH: ClassVar[str] = "fine_tuning.method"

    name: Literal["rehearsal"] = "rehearsal"
    portion: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        share = self.portion
        require(0 < share < 1, f"{self.PATH}.portion", "must be in (0, 1)", share)


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningWithoutForgetting(Table):
    """The loss also asks for the predictions of the model received (eqs. 1-2).

    Attributes:
      true_label_weight: lambda in [0, 1], weight of the cross-entropy with the true words; that
        with the received model's predictions has the rest.
    """

    PATH: ClassVar[str] = "fine_tuning.method"

    name: Literal["lwf"] = "lwf"
    true_label_weight: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction(f"{self.PATH}.true_label_weight", self.true_label_weight, below_one=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Averaging(Table):
    """The server aggregates deltas: `[server]` and `[aggregation]` say how."""

    PATH: ClassVar[str] = "fine_tuning.server"

    name: Literal["averaging"] = "averaging"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Transfer(Table):
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

    PATH: ClassVar[str] = "fine_tuning.server"

    name: Literal["transfer"] = "transfer"
    text: Literal["general", "generated"] = "general"
    messages: int = 1000
    epochs: int = 1
    batch_size: int = 16
    learning_rate: float = 0.5
    clip_norm: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("messages", "epochs", "batch_size"):
            require_at_least(f"{self.PATH}.{name}", getattr(self, name), 1)
        require_positive(f"{self.PATH}.learning_rate", self.learning_rate)
        require_at_least(f"{self.PATH}.clip_norm", self.clip_norm, 0)


Method: TypeAlias = Retraining | RehearsalMethod | LearningWithoutForgetting
FineTuningServer: TypeAlias = Averaging | Transfer


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(Table):
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

    PATH: ClassVar[str] = "fine_tuning"

    general_store: str = ""
    user_weight: float = 0.5
    method: Method = dataclasses.field(default_factory=Retraining)
    server: FineTuningServer = dataclasses.field(default_factory=Averaging)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction("fine_tuning.user_weight", self.user_weight, below_one=False)
        needs_text = isinstance(self.method, RehearsalMethod) or (
            isinstance(self.server, Transfer) and self.server.text == "general"
        )
        require(
            bool(self.general_store) or not needs_text,
            "fine_tuning.general_store",
            "must name a client store: rehearsal and transfer on general text draw on it",
            self.general_store,
        )
