"""`[model]`: the next-word model and its size, chosen by `type`."""

import dataclasses
from typing import Any, Literal, TypeAlias

from tff_keyboard.config.reading.tables import Table
from tff_keyboard.storage.checks import Fraction, FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model(Table, path="model"):
    """The keys of all models.

    Attributes:
      units: Recurrent units; None uses the paper's (CIFG 670, GRU 300, LSTM 400).
      embedding_size: Width of the embedding; None uses the paper's (96, 300, 300).
      initial_model: Directory of a saved model (or a run directory) with the initial weights. ""
        draws random weights from `train.seed`. Rows are matched word by word; words that the saved
        model does not have start from random rows.
    """

    units: FromOne | None = None
    embedding_size: FromOne | None = None
    initial_model: str = ""

    def options(self) -> dict[str, Any]:
        """Returns keyword arguments for `tff_keyboard.models.build_model`, without unset ones."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("type", "initial_model")
            and getattr(self, field.name) != field.default
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class CifgConfig(_Model):
    """The CIFG of Hard et al. 2018, whose output table is its embedding.

    Attributes:
      embedding_dropout: Dropout rate on word vectors during training, in [0, 1).
      output_dropout: Dropout rate on the input of the output table during training, in [0, 1).
    """

    type: Literal["cifg"] = "cifg"
    embedding_dropout: Fraction = 0.0
    output_dropout: Fraction = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PaperModel(_Model):
    """The keys of the models in the aggregation papers.

    Attributes:
      tied: Whether the output layer reuses the embedding; None uses the paper's choice.
      dropout: Dropout rate on layer outputs during training, in [0, 1).
    """

    tied: bool | None = None
    dropout: Fraction = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class GruConfig(_PaperModel):
    """The GRU of Ji et al. 2019."""

    type: Literal["gru"] = "gru"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lstm2Config(_PaperModel):
    """The two-layer LSTM of Wu et al. 2020."""

    type: Literal["lstm2"] = "lstm2"


ModelConfig: TypeAlias = CifgConfig | GruConfig | Lstm2Config
