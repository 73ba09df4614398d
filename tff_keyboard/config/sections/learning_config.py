"""`[server]` and `[central]`: the server's optimizer, and the optimizer of `train-server`.

`train-server` trains on pooled text. The tables `[client]` are in `algorithms/registry/`.
"""

import dataclasses
from typing import ClassVar, Literal, TypeAlias

from tff_keyboard.config.sections.schedule_config import Constant, Schedule
from tff_keyboard.parts.own_part import OwnPart
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import Fraction, Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Optimizer(Table):
    """The keys of all server optimizers.

    Attributes:
      learning_rate: Learning rate of the optimizer. In `[server]` it is a factor on the aggregated
        update, which FedAtt and FedMed call epsilon or step size; in `[central]` it is a factor on
        the gradient.
      schedule: How the step size changes from round to round.
    """

    learning_rate: Positive = 1.0
    schedule: Schedule = dataclasses.field(default_factory=Constant)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Adam(_Optimizer):
    """The keys of Adam and Yogi.

    Attributes:
      beta_1: Decay factor of the first moment.
      beta_2: Decay factor of the second moment.
      epsilon: Added to the square root of the second moment, to avoid division by zero (tau in
        Reddi et al. 2021). Larger values make the step less adaptive.
    """

    beta_1: Fraction = 0.9
    beta_2: Fraction = 0.999
    epsilon: Positive = 1e-5


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgServer(_Optimizer, path="server"):
    """SGD without momentum: w <- w - learning_rate * update.

    With learning rate 1, the new model is the mean of the clients' models.
    """

    type: Literal["fedavg"] = "fedavg"


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgM(_Optimizer, path="server"):
    """SGD with momentum on the server (Hsu et al. 2019, https://arxiv.org/abs/1909.06335).

    Attributes:
      momentum: Momentum of the server; 0 means none.
      nesterov: Whether the momentum is Nesterov's. Hard et al. 2018 use it with learning rate 1.0
        and momentum 0.9.
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
    """Yogi on the server: as Adam, but the second moment decreases more slowly."""

    type: Literal["fedyogi"] = "fedyogi"
    learning_rate: Positive = 0.01


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAdagrad(_Optimizer, path="server"):
    """Adagrad on the server: divides by the square root of the sum of all squared updates.

    Attributes:
      epsilon: Added to the square root of the sum, to avoid division by zero (tau in Reddi et al.
        2021).
    """

    type: Literal["fedadagrad"] = "fedadagrad"
    learning_rate: Positive = 0.0316
    epsilon: Positive = 1e-4


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnServer(OwnPart, path="server"):
    """A server optimizer of the user: the part returns a `tff.learning.optimizers.Optimizer`.

    No parameter gets a value of the run. The learning rate is constant.
    """

    GROUP: ClassVar[str] = "tff_keyboard.server_optimizers"
    schedule: ClassVar[Schedule] = Constant()

    @property
    def learning_rate(self) -> float:
        """The option `learning_rate`, or 1 if the part has none."""
        return self.settings.get("learning_rate", 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralSgd(Table, path="central"):
    """SGD with the keys of `[client]`. The momentum is kept from round to round."""

    type: Literal["client_sgd"] = "client_sgd"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralAdam(Adam, path="central"):
    """Adam on gradients, clipped to `client.gradient_clip_norm`."""

    type: Literal["adam"] = "adam"
    learning_rate: Positive = 3e-3
    epsilon: Positive = 1e-7


ServerConfig: TypeAlias = FedAvgServer | FedAvgM | FedAdam | FedYogi | FedAdagrad | OwnServer
CentralConfig: TypeAlias = CentralSgd | CentralAdam
