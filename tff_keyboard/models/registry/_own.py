"""A model that is not in this package."""

import dataclasses
from typing import ClassVar

from tff_keyboard.parts.model import DRAWS_INITIAL_WEIGHTS, ModelOptions
from tff_keyboard.parts.own_part import OwnPart


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnModel(ModelOptions, OwnPart, path="model"):
    """A model of the user (docs/own_parts.md).

    Parameters with these names get values of the run: `vocabulary_size`, `seed`. A run with privacy
    makes no claim unless the part has the attribute `draws_initial_weights` = True, see
    docs/own_parts.md.
    """

    GROUP: ClassVar[str] = "tff_keyboard.models"
    RUN_VALUES: ClassVar[tuple[str, ...]] = ("vocabulary_size", "seed")

    @property
    def name(self) -> str:
        """The reference, which `tff_keyboard.models.build_model` takes like a name."""
        return self.reference

    @property
    def unknown_weights(self) -> str:
        """See base class."""
        return "" if self.declares(DRAWS_INITIAL_WEIGHTS) else self.type
