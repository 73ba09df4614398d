"""`[model]`: which next-word model, with its size; chosen by `name`."""

import dataclasses
from typing import Any, Literal, TypeAlias

from tff_keyboard.config.reading.checks import Fraction, FromOne
from tff_keyboard.config.reading.tables import Table


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model(Table, path="model"):
    """What all models have.

    Attributes:
      units: Recurrent units; None takes the paper's (CIFG 670, GRU 300, LSTM 400).
      embedding_size: Width of the embedding; None takes the paper's (96, 300, 300).
      initial_model: Directory of a saved model (or a run directory) whose weights training starts
        from; empty starts from `train.seed`. Rows are taken word by word; a word that it does not
        have begins as drawn.
    """

    units: FromOne | None = None
    embedding_size: FromOne | None = None
    initial_model: str = ""

    def options(self) -> dict[str, Any]:
        """Keyword arguments for `tff_keyboard.models.build_model`; unset ones left out."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("name", "initial_model")
            and getattr(self, field.name) != field.default
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cifg(_Model):
    """The CIFG of Hard et al. 2018, whose output layer is its embedding.

    Attributes:
      embedding_dropout: Dropout rate on word vectors during training, in [0, 1).
      output_dropout: Dropout rate on what the output table is multiplied with during training, in
        [0, 1).
      int4_rows: Whether the word table is read as an export of int4 rows holds it, in training and
        after; for the last rounds, from an `initial_model`.
    """

    name: Literal["cifg"] = "cifg"
    embedding_dropout: Fraction = 0.0
    output_dropout: Fraction = 0.0
    int4_rows: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PaperModel(_Model):
    """The models of the aggregation papers.

    Attributes:
      tied: Whether the output layer reuses the embedding; None takes the paper's.
      dropout: Dropout rate on layer outputs during training, in [0, 1).
    """

    tied: bool | None = None
    dropout: Fraction = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Gru(_PaperModel):
    """The GRU of Ji et al. 2019."""

    name: Literal["gru"] = "gru"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lstm2(_PaperModel):
    """The two-layer LSTM of Wu et al. 2020."""

    name: Literal["lstm2"] = "lstm2"


ModelConfig: TypeAlias = Cifg | Gru | Lstm2
