"""`model.json`, the description of a saved model. Read without TensorFlow."""

import os
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any

from tff_keyboard.storage import directories, files, json_text, metrics_rows, names, shipped_files
from tff_keyboard.storage.errors import CheckFailed, SavedModelError, printable

FORMAT = "tff-keyboard model 1"

_WAY_OUT = "Run the command that saved the model again."


def read_description(directory: str | os.PathLike[str]) -> tuple[pathlib.Path, dict[str, Any]]:
    """Returns the directory of a saved model and its description. Does not read the weights.

    The model is in `directory` itself, or in the `model/` folder of a run directory.

    Raises:
      SavedModelError: If the model is missing, or its description is damaged or has another format.
      CheckFailed: If there is a model next to the files of a run (`check_root_of_run`).
    """
    directory = shipped_files.locate(pathlib.Path(directory))
    check_root_of_run(directory)
    directories.restore(directory / names.MODEL)
    inner = directory / names.MODEL
    if not (directory / names.MODEL_DESCRIPTION).exists():
        directory = inner if (inner / names.MODEL_DESCRIPTION).exists() else directory
    path = directory / names.MODEL_DESCRIPTION
    try:
        description = json_text.parse(
            files.content(path, follow_link=True, max_bytes=files.MAX_TABLE_BYTES)
        )
    except FileNotFoundError:
        raise SavedModelError(
            f"{directory}: there is no saved model ({names.MODEL_DESCRIPTION} is missing). "
            "Pass the run directory of a finished training, or its model/ folder."
        ) from None
    except OSError as error:
        raise SavedModelError(f"{path}: cannot be read ({error.strerror}).") from None
    except json_text.InvalidJsonError as error:
        raise SavedModelError(f"{path}: is damaged: {error}. {_WAY_OUT}") from None
    fields = {"name": str, "vocabulary_size": int, "options": dict, "sha256": dict}
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        actual = description.get("format") if isinstance(description, dict) else None
        raise SavedModelError(
            f"{path}: the format must be {FORMAT!r}, got {printable(repr(actual))}. Another "
            f"version wrote the file, or it is damaged. {_WAY_OUT}"
        )
    for field, kind in fields.items():
        if not isinstance(description.get(field), kind):
            raise SavedModelError(f"{path}: field {field!r} is missing or not a {kind.__name__}.")
    if set(description["sha256"]) != {names.WEIGHTS, names.VOCABULARY}:
        raise SavedModelError(f"{path}: `sha256` must name {names.WEIGHTS} and {names.VOCABULARY}.")
    return directory, description


def check_root_of_run(directory: pathlib.Path) -> None:
    """Checks that a run directory has no model in its root, next to its config or its ledger.

    Training writes models into folders of the run. A model in the root was put there, so neither
    the ledger nor the config of the run says how it was trained.

    Raises `CheckFailed` otherwise.
    """
    path = directory / names.MODEL_DESCRIPTION
    if path.exists() and any((directory / part).exists() for part in (names.CONFIG, names.LEDGER)):
        raise CheckFailed(
            f"{path} is not the model of the run in this directory, whose models are in "
            f"{names.MODEL}/ and {names.LAST_MODEL}/. Move it to a directory of its own."
        )


def warn_if_training_went_on(model: pathlib.Path, description: Mapping[str, object]) -> None:
    """Warns if a run has computed more rounds since its model was saved.

    The warning points to the caller of the function that calls this one.
    """
    rounds = description.get("rounds")
    if not isinstance(rounds, int):  # not from a training run
        return
    rows = metrics_rows.read_sound_rows(model.parent / names.METRICS)
    if rows and rounds < (now := metrics_rows.round_of(rows[-1])):
        warnings.warn(
            f"{model} is from round {rounds}, but the training is now at round {now} and not "
            "finished. To finish the training, run its command again.",
            stacklevel=3,
        )
