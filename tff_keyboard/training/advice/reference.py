"""Reads `docs/results/recipes.toml`: results of each shipped recipe, and of its baselines."""

import dataclasses
import pathlib
from typing import Literal

from tff_keyboard.parts.tables import Table, build
from tff_keyboard.storage import shipped_files, toml
from tff_keyboard.storage.checks import require
from tff_keyboard.storage.errors import ConfigError

FILE = shipped_files.ROOT / "docs" / "results" / "recipes.toml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(Table, path="corpora.models"):
    """A row of a corpus' table. Shares are in percent; the end of a message is not counted."""

    model: str
    command: str  # A config in `configs/`, a study, or the model's name for `compare`
    start: str = ""
    # millions of tokens read in training; 0 for a model of counts
    tokens_m: float = 0.0
    # passes over the train population's text; 0 if `advise` does not show the row
    passes: float = 0.0
    top_1: tuple[float, ...]  # recall, and the ends of its 95 % interval over clients
    top_3: float
    keystrokes: float = 0.0  # saved; 0 if not measured
    perplexity: float
    date: str
    file: str
    row: str

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "must be a value and the two bounds of its interval"
        require(len(self.top_1) == 3, f"{self.PATH}.top_1", rule, list(self.top_1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus(Table, path="corpora"):
    """A corpus and the models that were evaluated on it."""

    name: str
    kind: str
    clients: int
    words: int
    population: Literal["held_out", "validation"]  # the clients of the evaluation
    judged: str
    page: str
    models: tuple[Model, ...]

    @property
    def recipes(self) -> tuple[Model, ...]:
        """Returns the federated recipes, which `advise` shows."""
        return tuple(model for model in self.models if model.passes)

    def hybrid_of(self, model: Model) -> Model | None:
        """Returns the row of a model with an n-gram and own words; None if not measured."""
        return next((each for each in self.models if each.row == f"hybrid:{model.row}"), None)


def corpora(path: pathlib.Path = FILE) -> tuple[Corpus, ...]:
    """Returns all corpora of the file."""
    try:
        tables = toml.parse(path.read_text(encoding="utf-8")).get("corpora", ())
        return tuple(build(Corpus, table, "corpora") for table in tables)
    except OSError as error:
        raise ConfigError(
            f"Cannot read {path}: {error.strerror}. It is a part of tff-keyboard. Install "
            "tff-keyboard again."
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
