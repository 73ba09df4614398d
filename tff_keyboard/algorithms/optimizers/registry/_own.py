"""A server optimizer that is not in this package."""

import dataclasses
from typing import Any, ClassVar

from tff_keyboard.parts.own_part import OwnPart
from tff_keyboard.parts.server_optimizer import ServerOptimizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnServer(ServerOptimizer, OwnPart):
    """A server optimizer of the user: the part returns a `tff.learning.optimizers.Optimizer`.

    No parameter gets a value of the run. The learning rate is constant.
    """

    GROUP: ClassVar[str] = "tff_keyboard.server_optimizers"

    @property
    def learning_rate(self) -> float:
        """The option `learning_rate`, or 1 if the part has none."""
        return self.settings.get("learning_rate", 1.0)

    def build(self) -> Any:
        """See base class."""
        import tensorflow_federated as tff

        optimizer = self.call({})
        is_optimizer = isinstance(optimizer, tff.learning.optimizers.Optimizer)
        self.must_be(is_optimizer, "a `tff.learning.optimizers.Optimizer`", optimizer)
        return optimizer
