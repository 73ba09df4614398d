"""`model.json`, which says what a saved model is; read without TensorFlow."""

import json
import os
import pathlib
import warnings
from collections.abc import Mapping
from typing import Any

from tff_keyboard.storage import directories, metrics_rows, names, shipped_files
from tff_keyboard.storage.errors import SavedModelError

FORMAT = "tff-keyboard model 1"

_WAY_OUT = "Run the command that saved the model again."


def read_description(directory: str | os.PathLike[str]) -> tuple[pathlib.Path, dict[str, Any]]:
    """The directory of a saved model, and what it says of itself; the weights are not looked at.

    The model is in `directory`, or in a run directory's `model/`. Raises `SavedModelError` if there
    is none, or its description is damaged or of another format.
    """
    directory = shipped_files.found(pathlib.Path(directory))
    directories.restore(directory / names.MODEL)
    inner = directory / names.MODEL
    if not (directory / names.MODEL_DESCRIPTION).exists():
        directory = inner if (inner / names.MODEL_DESCRIPTION).exists() else directory
    path = directory / names.MODEL_DESCRIPTION
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SavedModelError(
            f"{directory}: there is no saved model here ({names.MODEL_DESCRIPTION} is missing). "
            "Give the run directory of a finished training, or its model/ folder."
        ) from None
    except OSError as error:
        raise SavedModelError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValueError:
        raise SavedModelError(f"{path}: is damaged, it is no JSON. {_WAY_OUT}") from None
    fields = {"name": str, "vocabulary_size": int, "options": dict, "sha256": dict}
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        found = description.get("format") if isinstance(description, dict) else None
        raise SavedModelError(
            f"{path}: not of format {FORMAT!r} but {found!r}: another version wrote it, or it is "
            f"damaged. {_WAY_OUT}"
        )
    for field, kind in fields.items():
        if not isinstance(description.get(field), kind):
            raise SavedModelError(f"{path}: field {field!r} is missing or not a {kind.__name__}.")
    if set(description["sha256"]) != {names.WEIGHTS, names.VOCABULARY}:
        raise SavedModelError(f"{path}: `sha256` must name {names.WEIGHTS} and {names.VOCABULARY}.")
    return directory, description


def warn_if_training_went_on(model: pathlib.Path, description: Mapping[str, object]) -> None:
    """Warns, where its caller was called, of a run whose model is of fewer rounds than the run."""
    rounds = description.get("rounds")
    if not isinstance(rounds, int):  # of no training
        return
    rows = metrics_rows.read_sound_rows(model.parent / names.METRICS)
    if rows and rounds < (now := metrics_rows.round_of(rows[-1])):
        warnings.warn(
            f"{model} is of round {rounds}, the training has come to round {now} since and not to "
            "its end. To have the model of all its rounds, give the command that trained it again.",
            stacklevel=3,
        )
