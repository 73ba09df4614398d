"""`[client]` and `[server]`: the work of a client in a round, and the server's optimizer.

`[central]` is the optimizer of `train-server`, which trains on pooled text.
"""

import dataclasses
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.config.sections.schedule_config import Constant, Schedule
from tff_keyboard.storage.checks import Fraction, FromOne, FromZero, NotNegative, Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Client(Table, path="client"):
    """The keys of all client algorithms.

    Attributes:
      batch_size: Messages in a batch.
      max_examples: Maximum number of messages that a client trains on in a round, drawn anew every
        round by seed; 0 means all.
    """

    batch_size: FromOne = 16
    max_examples: FromZero = 256


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgClient(_Client):
    """Local SGD. The client sends the change of its weights.

    Attributes:
      learning_rate: SGD learning rate. The loss is the mean over the tokens of a batch, in nats.
      momentum: SGD momentum in [0, 1); reset every round.
      gradient_clip_norm: Bound on the L2 norm of a batch's gradient; 0 means none. Without a bound
        the CIFG diverges on small cohorts with server momentum 0.9.
      epochs: Passes over the client's chosen messages.
      schedule: How the learning rate changes from round to round.
    """

    type: Literal["fedavg"] = "fedavg"
    learning_rate: Positive = 0.5
    momentum: Fraction = 0.0
    gradient_clip_norm: NotNegative = 1.0
    epochs: FromOne = 1
    schedule: Schedule = dataclasses.field(default_factory=Constant)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedSgdClient(_Client):
    """The client sends the mean gradient over its chosen messages, computed in one pass."""

    epochs: ClassVar[int] = 1

    type: Literal["fedsgd"] = "fedsgd"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Optimizer(Table):
    """The keys of all server optimizers.

    Attributes:
      learning_rate: Step size, > 0. In `[server]`, also the step size of FedAtt and FedMed.
      schedule: How the step size changes from round to round.
    """

    learning_rate: Positive = 1.0
    schedule: Schedule = dataclasses.field(default_factory=Constant)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(_Optimizer):
    """The keys of Adam and Yogi.

    Attributes:
      beta_1: First-moment decay, in [0, 1).
      beta_2: Second-moment decay, in [0, 1).
      epsilon: Added to the root of the second moment, > 0: the tau of Reddi et al. 2021.
    """

    beta_1: Fraction = 0.9
    beta_2: Fraction = 0.999
    epsilon: Positive = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgServer(_Optimizer, path="server"):
    """w <- w - learning_rate * delta. With learning rate 1, the mean of the clients' models."""

    type: Literal["fedavg"] = "fedavg"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgM(_Optimizer, path="server"):
    """SGD with momentum (Hsu et al. 2019, https://arxiv.org/abs/1909.06335).

    Attributes:
      momentum: Momentum of the server, in [0, 1).
      nesterov: Whether to use Nesterov momentum, as in Hard et al. 2018 (lr 1.0, momentum 0.9).
    """

    type: Literal["fedavgm"] = "fedavgm"
    momentum: Fraction = 0.9
    nesterov: bool = True


# Source: Reddi et al. 2021, https://arxiv.org/abs/2003.00295. The defaults were tuned for next-word
# prediction on StackOverflow, with a client learning rate of 0.316 and accumulators from 0.


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdam(Adam, path="server"):
    """Adam on the server."""

    type: Literal["fedadam"] = "fedadam"
    learning_rate: Positive = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedYogi(Adam, path="server"):
    """Yogi on the server. Its second moment falls no faster than its own decay."""

    type: Literal["fedyogi"] = "fedyogi"
    learning_rate: Positive = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdagrad(_Optimizer, path="server"):
    """Adagrad on the server, which divides by the root of the sum of all past squares.

    Attributes:
      epsilon: Added to that root, > 0: the tau of Reddi et al. 2021.
    """

    type: Literal["fedadagrad"] = "fedadagrad"
    learning_rate: Positive = 0.0316
    epsilon: Positive = 1e-4


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralSgd(Table, path="central"):
    """The SGD of `[client]`, with a momentum that continues from round to round."""

    type: Literal["client_sgd"] = "client_sgd"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralAdam(Adam, path="central"):
    """Adam on gradients, clipped to `client.gradient_clip_norm`."""

    type: Literal["adam"] = "adam"
    learning_rate: Positive = 3e-3
    epsilon: Positive = 1e-7


ClientConfig: TypeAlias = FedAvgClient | FedSgdClient
ServerConfig: TypeAlias = FedAvgServer | FedAvgM | FedAdam | FedYogi | FedAdagrad
CentralConfig: TypeAlias = CentralSgd | CentralAdam
