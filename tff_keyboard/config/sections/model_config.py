"""`[model]`: the next-word model and its size, chosen by `type`."""

import dataclasses
from typing import Any, ClassVar, Literal, TypeAlias

from tff_keyboard.parts.own_part import OwnPart
from tff_keyboard.parts.tables import Table
from tff_keyboard.storage.checks import Fraction, FromOne


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model(Table, path="model"):
    """The keys of all models.

    Attributes:
      units: Number of recurrent units. If not set, the number in the model's paper: CIFG 670, GRU
        300, LSTM 400.
      embedding_size: Width of the word vectors. If not set, the width in the model's paper: CIFG
        96, GRU 300, LSTM 300.
      initial_model: Directory of a saved model, or a run directory, whose weights the training
        starts from. Words are matched by their spelling; words that the saved model does not know
        start with random vectors. With "", all initial weights are random and depend on
        `train.seed`.
    """

    units: FromOne | None = None
    embedding_size: FromOne | None = None
    initial_model: str = ""

    @property
    def name(self) -> str:
        """The name of the model for `tff_keyboard.models.build_model`."""
        return self.type  # type: ignore[attr-defined]

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
    """The CIFG of Hard et al. 2018. Its output layer shares its weights with the embedding.

    Attributes:
      embedding_dropout: Share of the entries of word vectors that are set to zero at random during
        training; 0 means no dropout.
      output_dropout: Share of the inputs of the output layer that are set to zero at random during
        training; 0 means no dropout.
    """

    type: Literal["cifg"] = "cifg"
    embedding_dropout: Fraction = 0.0
    output_dropout: Fraction = 0.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _PaperModel(_Model):
    """The keys of the models in the aggregation papers.

    Attributes:
      tied: Whether the output layer shares its weights with the embedding. If not set, as in the
        model's paper.
      dropout: Share of the outputs of each layer that are set to zero at random during training; 0
        means no dropout.
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class SiCifgConfig(_Model):
    """The scale-invariant CIFG of Ro et al. 2024. `units` and `embedding_size` as in the CIFG."""

    type: Literal["si_cifg"] = "si_cifg"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnModel(OwnPart, path="model"):
    """A model of the user (docs/own_parts.md).

    Parameters with these names get values of the run: `vocabulary_size`, `seed`.

    Attributes:
      initial_model: As for the models of this package.
    """

    GROUP: ClassVar[str] = "tff_keyboard.models"
    RUN_VALUES: ClassVar[tuple[str, ...]] = ("vocabulary_size", "seed")

    initial_model: str = ""

    @property
    def name(self) -> str:
        """The reference, which `tff_keyboard.models.build_model` takes like a name."""
        return self.reference

    def options(self) -> dict[str, Any]:
        """Returns keyword arguments for `tff_keyboard.models.build_model`."""
        return self.arguments()


ModelConfig: TypeAlias = CifgConfig | GruConfig | Lstm2Config | SiCifgConfig | OwnModel
