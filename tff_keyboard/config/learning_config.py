"""`[client]` and `[server]`: what a client does in a round and what the server makes of it."""

import dataclasses
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.checks import require_at_least, require_fraction, require_positive
from tff_keyboard.config.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Client(Table):
    """What clients read in a round.

    Attributes:
      batch_size: Messages in a batch.
      max_examples: Messages a client trains on in a round at most, drawn anew every round by
        seed; 0 means all.
    """

    PATH: ClassVar[str] = "client"

    batch_size: int = 16
    max_examples: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least("client.batch_size", self.batch_size, 1)
        require_at_least("client.max_examples", self.max_examples, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgClient(_Client):
    """Local SGD; the client sends how far its weights moved.

    Attributes:
      learning_rate: SGD learning rate; the loss is the mean over a batch's tokens, in nats.
      momentum: SGD momentum in [0, 1); reset every round.
      gradient_clip_norm: Bound on the L2 norm of a batch's gradient; 0 means none. Without one the
        CIFG diverges on small cohorts with server momentum 0.9.
      epochs: Passes over the client's chosen messages.
    """

    algorithm: Literal["fedavg"] = "fedavg"
    learning_rate: float = 0.5
    momentum: float = 0.0
    gradient_clip_norm: float = 1.0
    epochs: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("client.learning_rate", self.learning_rate)
        require_fraction("client.momentum", self.momentum)
        require_at_least("client.gradient_clip_norm", self.gradient_clip_norm, 0)
        require_at_least("client.epochs", self.epochs, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedSgdClient(_Client):
    """The client sends the mean gradient over its chosen messages, of one pass."""

    epochs: ClassVar[int] = 1

    algorithm: Literal["fedsgd"] = "fedsgd"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Server(Table):
    """Base of the server optimizers; the aggregated delta plays the gradient.

    Attributes:
      learning_rate: Server learning rate; FedAtt's and FedMed's step size too.
    """

    PATH: ClassVar[str] = "server"

    learning_rate: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("server.learning_rate", self.learning_rate)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgServer(_Server):
    """w <- w - learning_rate * delta. With learning rate 1, the mean of clients' models."""

    optimizer: Literal["fedavg"] = "fedavg"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgM(_Server):
    """SGD with momentum (Hsu et al. 2019, https://arxiv.org/abs/1909.06335).

    Attributes:
      momentum: In [0, 1).
      nesterov: Whether momentum is Nesterov's, as in Hard et al. 2018 (lr 1.0, momentum 0.9).
    """

    optimizer: Literal["fedavgm"] = "fedavgm"
    momentum: float = 0.9
    nesterov: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction("server.momentum", self.momentum)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdam(_Server):
    """Adam (Reddi et al. 2021, https://arxiv.org/abs/2003.00295).

    Attributes:
      beta_1: First-moment decay.
      beta_2: Second-moment decay.
      epsilon: Added to the root of the second moment (the paper's tau).
    """

    optimizer: Literal["fedadam"] = "fedadam"
    beta_1: float = 0.9
    beta_2: float = 0.99
    epsilon: float = 1e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction("server.beta_1", self.beta_1)
        require_fraction("server.beta_2", self.beta_2)
        require_positive("server.epsilon", self.epsilon)


ClientConfig: TypeAlias = FedAvgClient | FedSgdClient
ServerConfig: TypeAlias = FedAvgServer | FedAvgM | FedAdam
