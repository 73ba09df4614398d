"""`[fine_tuning]`: trains a general model on users' text without forgetting general language.

Source: Popov et al. 2018, sections 2.1 to 2.3, https://arxiv.org/abs/1712.07473. The general model
itself is `model.initial_model`.
"""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import FromOne, NotNegative, OpenShare, Positive, Share


@dataclasses.dataclass(frozen=True, kw_only=True)
class Retraining(Table, path="fine_tuning.method"):
    """Trains on the client's own messages only."""

    type: Literal["retraining"] = "retraining"


@dataclasses.dataclass(frozen=True, kw_only=True)
class RehearsalMethod(Table, path="fine_tuning.method"):
    """Trains on a mixture of general messages and the client's own messages.

    Attributes:
      portion: Share of general messages in the messages that a client trains on in a round.
    """

    type: Literal["rehearsal"] = "rehearsal"
    portion: OpenShare = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearningWithoutForgetting(Table, path="fine_tuning.method"):
    """Trains with the predictions of the received model as additional targets.

    Learning without forgetting: eqs. 1 and 2 of Popov et al. 2018.

    Attributes:
      true_label_weight: Weight of the cross-entropy with the words that the user typed (lambda in
        the paper). The cross-entropy with the predictions of the received model has weight 1 -
        lambda.
    """

    type: Literal["lwf"] = "lwf"
    true_label_weight: Share = 0.5


@dataclasses.dataclass(frozen=True, kw_only=True)
class AveragingConfig(Table, path="fine_tuning.server"):
    """The server aggregates updates, as `[aggregation]` and `[server]` say."""

    type: Literal["averaging"] = "averaging"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransferConfig(Table, path="fine_tuning.server"):
    """The server trains its model on the mean predictions of the clients' models.

    Transfer learning: eq. 4 of Popov et al. 2018. It is a simulation only, because the server sees
    the model of every client. The table replaces `[server]`, and all clients have the same weight.

    Attributes:
      text: Text on which the models predict. "general" takes messages of `general_store`;
        "generated" lets the server's model write them.
      messages: Number of messages per round.
      epochs: Passes over the messages of a round.
      batch_size: Messages in a batch of the server's training.
      learning_rate: Learning rate of the server's SGD. The loss is the mean over the tokens of a
        batch, in nats.
      clip_norm: Largest L2 norm of a gradient of the server. A larger gradient is scaled down. 0
        means that gradients are not clipped.
    """

    type: Literal["transfer"] = "transfer"
    text: Literal["general", "generated"] = "general"
    messages: FromOne = 1000
    epochs: FromOne = 1
    batch_size: FromOne = 16
    learning_rate: Positive = 0.5
    clip_norm: NotNegative = 1.0


Method: TypeAlias = Retraining | RehearsalMethod | LearningWithoutForgetting
FineTuningServer: TypeAlias = AveragingConfig | TransferConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig(Table, path="fine_tuning"):
    """How clients and server preserve the knowledge of the general model.

    Attributes:
      general_store: Client store with general text, encoded with the same vocabulary. "" means
        none. With a general store, every evaluation measures the model on users' text and on
        general text. Rehearsal and the server's transfer learning take their general messages from
        the train population of this store.
      user_weight: Weight of users' text in the metrics named `trade_off/...`. General text has
        weight 1 - `user_weight`, so 0.5 is the plain mean. Used only with a general store.
      method: Training method of a client, chosen by `type`.
      server: Use of the clients' models by the server, chosen by `type`.
    """

    general_store: str = ""
    user_weight: Share = 0.5
    method: Method = dataclasses.field(default_factory=Retraining)
    server: FineTuningServer = dataclasses.field(default_factory=AveragingConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            bool(self.general_store) or not isinstance(self.method, RehearsalMethod),
            "general_store",
            "must be a client store, which rehearsal reads",
        )
        self.require(
            bool(self.general_store) or getattr(self.server, "text", "") != "general",
            "general_store",
            "must be a client store, from which the server's transfer learning takes its text",
            "Set it, or set `fine_tuning.server.text` = 'generated'.",
        )
