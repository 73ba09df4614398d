"""The model "lstm2"."""

import dataclasses
from typing import ClassVar, Literal

from tff_keyboard.models.registry._paper_model import PaperModel
from tff_keyboard.storage.checks import FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lstm2Config(PaperModel):
    """The two-layer LSTM of Wu et al. 2020. If tied, it has a projection before the output."""

    factory: ClassVar[str] = "tff_keyboard.models.lstm2:Lstm2"

    type: Literal["lstm2"] = "lstm2"
    units: FromOne = 400
