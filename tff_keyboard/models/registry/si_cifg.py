"""The model "si_cifg"."""

import dataclasses
from typing import ClassVar, Literal

from tff_keyboard.models.registry._projected_model import ProjectedModel


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiCifgConfig(ProjectedModel):
    """The scale-invariant CIFG of Ro et al. 2024."""

    factory: ClassVar[str] = "tff_keyboard.models.si_cifg:SiCifg"

    type: Literal["si_cifg"] = "si_cifg"
