"""The options of the models in the aggregation papers."""

import dataclasses

from tff_keyboard.parts.model import ModelOptions
from tff_keyboard.storage.checks import Fraction, FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class PaperModel(ModelOptions):
    """The keys of the models in the aggregation papers.

    Attributes:
      units: Number of recurrent units of each layer.
      embedding_size: Width of the word vectors.
      tied: Whether the output layer shares its weights with the embedding.
      dropout: Share of the outputs of each layer that are set to zero at random during training; 0
        means no dropout.
    """

    units: FromOne
    embedding_size: FromOne = 300
    tied: bool = False
    dropout: Fraction = 0.0
