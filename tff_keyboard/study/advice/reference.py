"""`configs/reference.toml`: what each shipped recipe reached, and what it is compared with."""

import dataclasses
import pathlib
from typing import Literal

from tff_keyboard.config.reading.checks import require
from tff_keyboard.config.reading.tables import Table, build
from tff_keyboard.storage import shipped_files
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.storage.toml import tomllib

FILE = shipped_files.ROOT / "configs" / "reference.toml"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model(Table, path="corpora.models"):
    """A row of a corpus' table; shares in percent, end of message not counted."""

    model: str
    command: str  # A config in `configs/`, a study, or the model's name for `compare`
    start: str = ""
    # millions of tokens read in training; 0 for a model that is counted, not trained
    tokens_m: float = 0.0
    # passes over the train population's text; 0 where `advise` does not show the row
    passes: float = 0.0
    top_1: tuple[float, ...]  # recall, and the ends of its 95 % interval over people
    top_3: float
    keystrokes: float = 0.0  # saved; 0 where it was not measured
    perplexity: float
    date: str
    file: str
    row: str

    def __post_init__(self) -> None:
        super().__post_init__()
        rule = "must be a value and the two ends of its interval"
        require(len(self.top_1) == 3, f"{self.PATH}.top_1", rule, list(self.top_1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Corpus(Table, path="corpora"):
    """A corpus and the models that were judged on it."""

    name: str
    kind: str
    people: int
    words: int
    population: Literal["held_out", "validation"]  # people whose text the models were judged on
    judged: str
    page: str
    models: tuple[Model, ...]

    @property
    def recipes(self) -> tuple[Model, ...]:
        """The federated recipes, which `advise` shows."""
        return tuple(model for model in self.models if model.passes)

    def hybrid_of(self, model: Model) -> Model | None:
        """The row of a model with an n-gram and the person's own words; None: not measured."""
        return next((each for each in self.models if each.row == f"hybrid:{model.row}"), None)


def corpora(path: pathlib.Path = FILE) -> tuple[Corpus, ...]:
    """All corpora of the file."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("corpora", ())
        return tuple(build(Corpus, table, "corpora") for table in tables)
    except OSError as error:
        raise ConfigError(
            f"Cannot read {path}: {error.strerror}. It comes with tff-keyboard: install that again."
        ) from None
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
