"""The client algorithm "program": a process that a Python program passed to a training."""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.parts.client_algorithm import ClientAlgorithm, ProcessParts
from tff_keyboard.storage.checks import FromOne
from tff_keyboard.storage.errors import ConfigError


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProgramClient(ClientAlgorithm):
    """A whole learning process that a Python program passed to `tff_keyboard.training.train`.

    A run records it, and only its program can continue the run: `train --config` refuses it. The
    tables [server], [aggregation] and [fine_tuning] have no effect.

    Attributes:
      epochs: Number of times that the messages of a client are in its data of a round.
    """

    privacy_problem: ClassVar[str] = (
        "the process comes from a Python program, so its sensitivity is unknown. Name it as an own "
        "part (docs/own_parts.md)."
    )
    wrap_problem: ClassVar[str] = "its process comes from a Python program."
    takes_rule_process: ClassVar[bool] = True

    type: Literal["program"] = "program"
    epochs: FromOne = 1

    def build(self, parts: ProcessParts) -> Any:
        """Raises `ConfigError`, because a config does not have the process."""
        raise ConfigError(
            "`client.type` = 'program': the process of this run was passed to "
            "`tff_keyboard.training.train` by a Python program. Run that program to continue it."
        )
