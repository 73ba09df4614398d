"""Which next-word model, with its size."""

import dataclasses
from typing import Any

from tff_keyboard.config.checks import require, require_at_least, require_fraction, require_one_of

MODEL_NAMES = ("cifg", "gru", "lstm2")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """A model of `tff_keyboard.models.MODELS` and its sizes.

    Attributes:
      name: "cifg" (Hard et al. 2018), "gru" (Ji et al. 2019) or "lstm2" (Wu et al. 2020).
      units: Recurrent units; None takes the paper's (670, 300, 400).
      embedding_size: Width of the embedding; None takes the paper's (96, 300, 300).
      tied: Whether the output layer reuses the embedding; None takes the model's default. The
        CIFG is always tied.
      dropout: Dropout rate on layer outputs during training, in [0, 1); GRU and LSTM only.
      initial_model: Directory of a saved model (or a run directory) whose weights training starts
        from; empty starts from `train.seed`. The vocabulary must be the same.
    """

    name: str = "cifg"
    units: int | None = None
    embedding_size: int | None = None
    tied: bool | None = None
    dropout: float = 0.0
    initial_model: str = ""

    def __post_init__(self):
        require_one_of("model.name", self.name, MODEL_NAMES)
        if self.units is not None:
            require_at_least("model.units", self.units, 1)
        if self.embedding_size is not None:
            require_at_least("model.embedding_size", self.embedding_size, 1)
        require_fraction("model.dropout", self.dropout)
        if self.name == "cifg":
            require(
                self.tied is not False,
                "model.tied",
                "must be true for 'cifg', whose output layer is its embedding",
                self.tied,
                "Leave it out, or choose 'gru' or 'lstm2'.",
            )
            require(
                self.dropout == 0.0,
                "model.dropout",
                "must be 0 for 'cifg' (Hard et al. use none)",
                self.dropout,
                "Leave it out, or choose 'gru' or 'lstm2'.",
            )

    def options(self) -> dict[str, Any]:
        """Keyword arguments for `tff_keyboard.models.build_model`; unset ones left out."""
        options: dict[str, Any] = {}
        if self.units is not None:
            options["units"] = self.units
        if self.embedding_size is not None:
            options["embedding_size"] = self.embedding_size
        if self.name != "cifg":
            if self.tied is not None:
                options["tied"] = self.tied
            if self.dropout:
                options["dropout"] = self.dropout
        return options
