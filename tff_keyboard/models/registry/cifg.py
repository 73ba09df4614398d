"""The model "cifg"."""

import dataclasses
from typing import Any, ClassVar, Literal

from tff_keyboard.models.registry._projected_model import ProjectedModel
from tff_keyboard.storage.checks import Fraction


@dataclasses.dataclass(frozen=True, kw_only=True)
class CifgConfig(ProjectedModel):
    """The CIFG of Hard et al. 2018. Its output layer shares its weights with the embedding.

    Attributes:
      embedding_dropout: Share of the entries of word vectors that are set to zero at random during
        training; 0 means no dropout. Not in the paper.
      output_dropout: Share of the inputs of the output layer that are set to zero at random during
        training; 0 means no dropout. The recurrence uses all of them. Not in the paper.
    """

    factory: ClassVar[str] = "tff_keyboard.models.cifg:Cifg"

    type: Literal["cifg"] = "cifg"
    embedding_dropout: Fraction = 0.0
    output_dropout: Fraction = 0.0

    def arguments(self) -> dict[str, Any]:
        """See base class. A rate of 0 is left out, as in models that earlier versions saved."""
        options = super().arguments()
        return {name: value for name, value in options.items() if value != 0.0}
