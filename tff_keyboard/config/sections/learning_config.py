"""`[client]` and `[server]`: what a client does in a round and what the server makes of it.

`[central]` is the optimizer of `train-server`, which trains on pooled text.
"""

import dataclasses
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.checks import require_at_least, require_fraction, require_positive
from tff_keyboard.config.reading.tables import Table
from tff_keyboard.config.sections.schedule_config import Constant, Schedule


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
      schedule: How the learning rate changes from round to round.
    """

    algorithm: Literal["fedavg"] = "fedavg"
    learning_rate: float = 0.5
    momentum: float = 0.0
    gradient_clip_norm: float = 1.0
    epochs: int = 1
    schedule: Schedule = dataclasses.field(default_factory=Constant)

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
class _Optimizer(Table):
    """What all optimizers of a server have.

    Attributes:
      learning_rate: Step size, > 0; in `[server]`, FedAtt's and FedMed's step size too.
      schedule: How it changes from round to round.
    """

    learning_rate: float = 1.0
    schedule: Schedule = dataclasses.field(default_factory=Constant)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(f"{self.PATH}.learning_rate", self.learning_rate)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(_Optimizer):
    """Adam and Yogi: moments and what is added to the root of the second.

    Attributes:
      beta_1: First-moment decay, in [0, 1).
      beta_2: Second-moment decay, in [0, 1).
      epsilon: Added to the root of the second moment, > 0: the tau of Reddi et al. 2021.
    """

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction(f"{self.PATH}.beta_1", self.beta_1)
        require_fraction(f"{self.PATH}.beta_2", self.beta_2)
        require_positive(f"{self.PATH}.epsilon", self.epsilon)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adagrad(_Optimizer):
    """Adagrad: the root of all squares so far.

    Attributes:
      epsilon: Added to that root, > 0: the tau of Reddi et al. 2021.
    """

    epsilon: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(f"{self.PATH}.epsilon", self.epsilon)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgServer(_Optimizer):
    """w <- w - learning_rate * delta. With learning rate 1, the mean of clients' models."""

    PATH: ClassVar[str] = "server"

    optimizer: Literal["fedavg"] = "fedavg"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgM(_Optimizer):
    """SGD with momentum (Hsu et al. 2019, https://arxiv.org/abs/1909.06335).

    Attributes:
      momentum: Momentum of the server, in [0, 1).
      nesterov: Whether momentum is Nesterov's, as in Hard et al. 2018 (lr 1.0, momentum 0.9).
    """

    PATH: ClassVar[str] = "server"

    optimizer: Literal["fedavgm"] = "fedavgm"
    momentum: float = 0.9
    nesterov: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction("server.momentum", self.momentum)


# Reddi et al. 2021, https://arxiv.org/abs/2003.00295. Defaults: the values tuned for next-word
# prediction on StackOverflow, all with a client learning rate of 0.316 and accumulators from 0.


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdam(Adam):
    """Adam on the server."""

    PATH: ClassVar[str] = "server"

    optimizer: Literal["fedadam"] = "fedadam"
    learning_rate: float = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedYogi(Adam):
    """Yogi on the server: the second moment falls no faster than by its own decay."""

    PATH: ClassVar[str] = "server"

    optimizer: Literal["fedyogi"] = "fedyogi"
    learning_rate: float = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdagrad(Adagrad):
    """Adagrad on the server."""

    PATH: ClassVar[str] = "server"

    optimizer: Literal["fedadagrad"] = "fedadagrad"
    learning_rate: float = 0.0316


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralSgd(Table):
    """The SGD of `[client]`, whose momentum then goes on from round to round."""

    PATH: ClassVar[str] = "central"

    optimizer: Literal["client_sgd"] = "client_sgd"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralAdam(Adam):
    """Adam on gradients, clipped to `client.gradient_clip_norm`."""

    PATH: ClassVar[str] = "central"

    optimizer: Literal["adam"] = "adam"
    learning_rate: float = 3e-3
    epsilon: float = 1e-7


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralYogi(Adam):
    """Yogi on gradients, clipped to `client.gradient_clip_norm`."""

    PATH: ClassVar[str] = "central"

    optimizer: Literal["yogi"] = "yogi"
    learning_rate: float = 3e-3
    epsilon: float = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralAdagrad(Adagrad):
    """Adagrad on gradients, clipped to `client.gradient_clip_norm`."""

    PATH: ClassVar[str] = "central"

    optimizer: Literal["adagrad"] = "adagrad"
    learning_rate: float = 0.1
    epsilon: float = 1e-7


ClientConfig: TypeAlias = FedAvgClient | FedSgdClient
ServerConfig: TypeAlias = FedAvgServer | FedAvgM | FedAdam | FedYogi | FedAdagrad
CentralConfig: TypeAlias = CentralSgd | CentralAdam | CentralYogi | CentralAdagrad
