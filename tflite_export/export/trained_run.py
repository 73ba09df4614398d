"""The run that is exported: its model and its records."""

import dataclasses
import pathlib

from tff_keyboard import config as config_lib
from tff_keyboard.data.store import forms_file
from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models import NextWordModel
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.privacy.claims import statement
from tff_keyboard.privacy.ledger import lineage
from tff_keyboard.storage import json_text, names
from tff_keyboard.storage.errors import DataError, ExportError, SavedModelError
from tff_keyboard.storage.run_directory import RunDirectory
from tflite_export.export import private_runs
from tflite_export.format import manifest
from tflite_export.format.manifest_content import RunFacts

NO_PRIVACY_CLAIM = "none: trained without differential privacy"
CONTINUES_PRIVATE_RUN = (
    "none: trained without differential privacy, from a model that was trained with it"
)
LEDGER_ELSEWHERE = (
    "not stated: trained with differential privacy, but exported from a copy of the model, without "
    "its ledger"
)


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """An opened run directory or saved model.

        run = tk.export.TrainedRun.load(pathlib.Path("runs/sms"))

    Attributes:
      directory: The run directory.
      model: The float model.
      vocabulary: Its words.
    """

    directory: pathlib.Path
    model: NextWordModel
    vocabulary: Vocabulary

    @classmethod
    def load(cls, directory: pathlib.Path) -> "TrainedRun":
        """Opens a run.

        Raises:
          ExportError: If the model is missing or damaged.
        """
        try:
            return cls(directory, *load_model(directory))
        except (SavedModelError, DataError) as error:
            raise ExportError(str(error)) from None

    def training_length(self) -> int | None:
        """Returns the number of targets of a training sequence, or None without a config."""
        path = self.directory / names.CONFIG
        return config_lib.load_of_run(path).data.max_length if path.is_file() else None

    def truecase(self) -> list[str]:
        """Returns the forms with capitals that its store had for its words.

        A link is refused: the lines of its target, a file of the user, would be in the export.
        """
        path = self.directory / names.TRUECASE
        try:
            return forms_file.read_forms(path, follow_link=False) if path.is_file() else []
        except OSError as error:
            raise ExportError(f"{path}: cannot be read ({error.strerror}).") from None

    def privacy(self) -> str:
        """Returns the statement of its differential privacy."""
        ledger = lineage.ledger_of(self.directory.resolve())
        # The graph for devices is exported before the first round of a private run.
        if RunDirectory(ledger.parent).has_begun and private_runs.is_private(self.directory):
            return statement.privacy_statement(ledger)
        if lineage.is_private_model(self.directory):
            return LEDGER_ELSEWHERE
        if lineage.comes_from_private_run(self.directory):
            return CONTINUES_PRIVATE_RUN
        return NO_PRIVACY_CLAIM

    def facts(self) -> RunFacts:
        """Returns hashes of its records, and its results on held-out users if it has any.

        Raises:
          ExportError: If the results are damaged.
        """
        hashes = {}
        # A hash of the text of private clients would let its readers test guesses of the text.
        card = () if private_runs.is_private(self.directory) else (names.DATA_CARD,)
        for name in (names.CONFIG, *card, f"{names.MODEL}/{names.WEIGHTS}", names.WEIGHTS):
            path = self.directory / name
            if path.is_file():
                hashes[name] = manifest.sha256(path.read_bytes())
        metrics = None
        evaluation = self.directory / names.evaluation("held_out")
        if evaluation.is_file():
            try:
                metrics = json_text.parse(evaluation.read_bytes())["metrics"]
            except (ValueError, KeyError, TypeError):
                raise ExportError(
                    f"{evaluation}: not the result of an evaluation. Evaluate the run again."
                ) from None
        return RunFacts(name=self.directory.resolve().name, sha256=hashes, metrics=metrics)
