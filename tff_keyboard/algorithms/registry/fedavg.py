"""The client algorithm "fedavg"."""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.algorithms.registry._local_sgd import LocalSgdClient, build_averaging
from tff_keyboard.parts.client_algorithm import ProcessParts


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedAvgClient(LocalSgdClient):
    """Trains with SGD on the client. The client sends the change of its weights."""

    takes_rule_process: ClassVar[bool] = True
    reports_touched_rows: ClassVar[bool] = True

    type: Literal["fedavg"] = "fedavg"

    def build(self, parts: ProcessParts) -> Any:
        """See base class."""
        return build_averaging(self, parts)
