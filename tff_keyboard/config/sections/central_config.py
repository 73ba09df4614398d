"""`[central]`: the optimizer of `train-server`, which trains on pooled text."""

import dataclasses
from typing import Literal, TypeAlias

from tff_keyboard.parts.server_optimizer import AdamOptions
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import Positive


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralSgd(Table, path="central"):
    """SGD with the keys of `[client]`. The momentum is kept from round to round."""

    type: Literal["client_sgd"] = "client_sgd"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CentralAdam(AdamOptions, path="central"):
    """Adam on gradients, clipped to `client.gradient_clip_norm`."""

    type: Literal["adam"] = "adam"
    learning_rate: Positive = 3e-3
    epsilon: Positive = 1e-7


CentralConfig: TypeAlias = CentralSgd | CentralAdam
