"""The model "transformer"."""

import dataclasses
from typing import ClassVar, Literal

from tff_keyboard.parts.model import ModelOptions
from tff_keyboard.storage.checks import FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelOptions):
    """A small transformer whose output layer shares its weights with the embedding.

    Attributes:
      embedding_size: Width of the word vectors and of the layers.
      layers: Number of layers, each with attention and a feed-forward network.
      heads: Number of attention heads of a layer. Must divide `embedding_size`.
      feed_forward_size: Width of the hidden layer of the feed-forward network.
      window: Number of words that a position attends to, itself included. With several layers, a
        prediction depends on more words.
    """

    factory: ClassVar[str] = "tff_keyboard.models.transformer:Transformer"

    type: Literal["transformer"] = "transformer"
    embedding_size: FromOne = 96
    layers: FromOne = 4
    heads: FromOne = 4
    feed_forward_size: FromOne = 384
    window: FromOne = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.embedding_size % self.heads:
            raise ValueError(
                f"`model.heads` must divide `model.embedding_size`, got {self.heads} and "
                f"{self.embedding_size}. Change one of them."
            )
