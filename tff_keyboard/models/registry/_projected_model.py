"""The options of the CIFG and of its scale-invariant form."""

import dataclasses

from tff_keyboard.parts.model import ModelOptions
from tff_keyboard.storage.checks import FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProjectedModel(ModelOptions):
    """The sizes of a recurrent model with a projection and a tied table.

    Attributes:
      units: Number of recurrent units, 670 in the paper.
      embedding_size: Width of the word vectors and of the recurrent projection, 96 in the paper.
    """

    units: FromOne = 670
    embedding_size: FromOne = 96
