"""Fine-tuning a general model on users' text without forgetting the general language."""

import dataclasses

from tff_keyboard.config.checks import (
    require,
    require_at_least,
    require_fraction,
    require_one_of,
    require_positive,
)

METHODS = ("retraining", "rehearsal", "lwf")
SERVERS = ("averaging", "transfer")
TRANSFER_TEXTS = ("general", "generated")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningConfig:
    """What clients and server do to keep what the general model knew.

    The general model itself is `model.initial_model`. Source: Popov et al. 2018, sections 2.1 to
    2.3, https://arxiv.org/abs/1712.07473.

    Attributes:
      method: Work of a client. "retraining": ordinary local training. "rehearsal": general messages
        are mixed with the client's own. "lwf": learning without forgetting, the loss also asks for
        the predictions of the model received (eqs. 1-2).
      general_store: Client store of the general corpus, encoded with the same vocabulary; "" means
        none. With one, every evaluation is made on both populations. Rehearsal and the server's
        transfer draw on its train population.
      rehearsal_portion: Share of the messages a client trains on in a round that are general, in
        (0, 1); of "rehearsal".
      true_label_weight: lambda in [0, 1], weight of the cross-entropy with the true words; that
        with the received model's predictions has the rest; of "lwf".
      user_weight: Weight of the user population in metrics named `trade_off/...`, in [0, 1]; the
        general population has the rest. 0.5 makes them averages.
      server: "averaging", or "transfer": the server trains its model on the average predictions of
        the clients' models (eq. 4). Simulation only: it needs to see individual models.
      transfer_text: What "transfer" predicts on: "general" text, or text "generated" by the
        server's model.
      transfer_messages: Messages of it a round.
      transfer_epochs: Passes over them.
      transfer_batch_size: Messages in a batch of the server's training.
      transfer_learning_rate: SGD learning rate of the server's training.
      transfer_clip_norm: Bound on the L2 norm of its gradients; 0 means none.
    """

    method: str = "retraining"
    general_store: str = ""
    rehearsal_portion: float = 0.5
    true_label_weight: float = 0.5
    user_weight: float = 0.5
    server: str = "averaging"
    transfer_text: str = "general"
    transfer_messages: int = 1000
    transfer_epochs: int = 1
    transfer_batch_size: int = 16
    transfer_learning_rate: float = 0.5
    transfer_clip_norm: float = 1.0

    def __post_init__(self):
        require_one_of("fine_tuning.method", self.method, METHODS)
        require_one_of("fine_tuning.server", self.server, SERVERS)
        require_one_of("fine_tuning.transfer_text", self.transfer_text, TRANSFER_TEXTS)
        require_fraction("fine_tuning.rehearsal_portion", self.rehearsal_portion)
        require_positive("fine_tuning.rehearsal_portion", self.rehearsal_portion)
        for name in ("true_label_weight", "user_weight"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"fine_tuning.{name}", "must be in [0, 1]", value)
        require_at_least("fine_tuning.transfer_messages", self.transfer_messages, 1)
        require_at_least("fine_tuning.transfer_epochs", self.transfer_epochs, 1)
        require_at_least("fine_tuning.transfer_batch_size", self.transfer_batch_size, 1)
        require_positive("fine_tuning.transfer_learning_rate", self.transfer_learning_rate)
        require_at_least("fine_tuning.transfer_clip_norm", self.transfer_clip_norm, 0)
        needs_text = self.method == "rehearsal" or (
            self.server == "transfer" and self.transfer_text == "general"
        )
        require(
            bool(self.general_store) or not needs_text,
            "fine_tuning.general_store",
            "must name a client store: rehearsal and transfer on general text draw on it",
            self.general_store,
        )
