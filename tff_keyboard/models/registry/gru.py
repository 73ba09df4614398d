"""The model "gru"."""

import dataclasses
from typing import ClassVar, Literal

from tff_keyboard.models.registry._paper_model import PaperModel
from tff_keyboard.storage.checks import FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class GruConfig(PaperModel):
    """The GRU of Ji et al. 2019, with 300, 650 or 1500 units in the paper."""

    factory: ClassVar[str] = "tff_keyboard.models.gru:Gru"

    type: Literal["gru"] = "gru"
    units: FromOne = 300

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tied and self.units != self.embedding_size:
            raise ValueError(
                f"`model.tied` requires `model.units` = `model.embedding_size`, got {self.units} "
                f"and {self.embedding_size}. Make them equal, or set `model.tied` = false."
            )
