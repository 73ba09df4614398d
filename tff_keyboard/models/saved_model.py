"""A trained model on disk: what the task `train` leaves and every later task takes.

    weights.npz      arrays by weight name, float32, no pickles
    vocabulary.txt   `Vocabulary.save`
    model.json       {"format", "name", "vocabulary_size", "options", "sha256": {file: digest}}

A model appears whole or not at all: the directory is written aside and renamed into place. Reading
checks both digests, names, shapes and that every weight is finite.
"""

import hashlib
import json
import os
import pathlib
import secrets
import shutil
import zipfile
from typing import Any

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.registry import build_model

FORMAT = "tff-keyboard model 1"
MODEL_FILE = "model.json"
WEIGHTS_FILE = "weights.npz"
VOCABULARY_FILE = "vocabulary.txt"

Path = str | os.PathLike[str]


class SavedModelError(ValueError):
    """A directory that is not a saved model, or a damaged one; the message is one line."""


def weights_by_name(model: NextWordModel) -> dict[str, np.ndarray]:
    """The model's weights in `trainable_variables` order, under their own names."""
    named = {v.name.split("/")[-1].split(":")[0]: v.numpy() for v in model.trainable_variables}
    assert len(named) == len(model.trainable_variables), "weight names must be unique"
    return named


def save_model(directory: Path, model: NextWordModel, vocabulary: Vocabulary) -> None:
    """Writes `directory`; one that is there already is replaced once the new one is complete.

    Raises:
      ValueError: Model and vocabulary differ in size, or a weight is not finite.
      OSError: The directory cannot be written; what was there before is untouched.
    """
    if model.vocabulary_size != len(vocabulary):
        raise ValueError(
            f"The model has {model.vocabulary_size} output rows and the vocabulary "
            f"{len(vocabulary)}: they do not belong together."
        )
    weights = weights_by_name(model)
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise ValueError(f"Weight {name!r} is not finite, so the model is not saved.")

    directory = pathlib.Path(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    aside = directory.parent / f".{directory.name}.{secrets.token_hex(4)}"
    aside.mkdir()
    try:
        with (aside / WEIGHTS_FILE).open("wb") as file:
            np.savez(file, **weights)
            file.flush()
            os.fsync(file.fileno())
        vocabulary.save(aside / VOCABULARY_FILE)
        description = {
            "format": FORMAT,
            "name": model.name_in_registry,
            "vocabulary_size": model.vocabulary_size,
            "options": model.options,
            "sha256": {name: _sha256(aside / name) for name in (WEIGHTS_FILE, VOCABULARY_FILE)},
        }
        with (aside / MODEL_FILE).open("w", encoding="utf-8") as file:
            file.write(json.dumps(description, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _move_into_place(aside, directory)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def load_model(directory: Path) -> tuple[NextWordModel, Vocabulary]:
    """Reads what `save_model` wrote.

    Args:
      directory: A saved model, or a run directory that holds one under `model/`.

    Raises:
      SavedModelError: There is no model, it is damaged, or of another format.
    """
    directory = pathlib.Path(directory)
    if not (directory / MODEL_FILE).exists() and (directory / "model" / MODEL_FILE).exists():
        directory = directory / "model"
    description = _read_description(directory)
    for name, digest in description["sha256"].items():
        if _sha256(directory / name) != digest:
            raise SavedModelError(
                f"{directory / name}: the content is not what {MODEL_FILE} recorded. Copy the "
                f"directory again, or train again."
            )
    vocabulary = Vocabulary.load(directory / VOCABULARY_FILE)
    try:
        model = build_model(
            description["name"],
            vocabulary_size=description["vocabulary_size"],
            seed=0,  # every weight is overwritten below
            **description["options"],
        )
    except (TypeError, ValueError) as error:
        raise SavedModelError(f"{directory / MODEL_FILE}: {error}") from None
    if len(vocabulary) != model.vocabulary_size:
        raise SavedModelError(
            f"{directory}: {VOCABULARY_FILE} has {len(vocabulary)} rows, {MODEL_FILE} says "
            f"{model.vocabulary_size}. The files come from different models."
        )
    _assign(model, directory / WEIGHTS_FILE)
    return model, vocabulary


def _move_into_place(aside: pathlib.Path, directory: pathlib.Path) -> None:
    if not directory.exists():
        aside.rename(directory)
        return
    # rename() cannot replace a directory that holds files, so the old one steps aside first.
    replaced = aside.with_name(aside.name + ".replaced")
    directory.rename(replaced)
    try:
        aside.rename(directory)
    except OSError:
        replaced.rename(directory)
        raise
    shutil.rmtree(replaced, ignore_errors=True)


def _read_description(directory: pathlib.Path) -> dict[str, Any]:
    path = directory / MODEL_FILE
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SavedModelError(
            f"{directory}: there is no saved model here ({MODEL_FILE} is missing). Give the run "
            f"directory of a finished training, or its model/ folder."
        ) from None
    except (OSError, ValueError) as error:
        raise SavedModelError(f"{path}: cannot be read ({type(error).__name__}).") from None
    fields = {"name": str, "vocabulary_size": int, "options": dict, "sha256": dict}
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise SavedModelError(f"{path}: not of format {FORMAT!r}.")
    for field, kind in fields.items():
        if not isinstance(description.get(field), kind):
            raise SavedModelError(f"{path}: field {field!r} is missing or not a {kind.__name__}.")
    if set(description["sha256"]) != {WEIGHTS_FILE, VOCABULARY_FILE}:
        raise SavedModelError(f"{path}: `sha256` must name {WEIGHTS_FILE} and {VOCABULARY_FILE}.")
    return description


def _assign(model: NextWordModel, path: pathlib.Path) -> None:
    try:
        with np.load(path, allow_pickle=False) as archive:
            weights = {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SavedModelError(f"{path}: cannot be read ({type(error).__name__}).") from None
    expected = weights_by_name(model)
    if set(weights) != set(expected):
        raise SavedModelError(
            f"{path}: holds the weights {sorted(weights)}, the model has {sorted(expected)}."
        )
    for name, value in weights.items():
        if value.shape != expected[name].shape or value.dtype != np.float32:
            raise SavedModelError(
                f"{path}: {name!r} is {value.dtype} {list(value.shape)}, must be float32 "
                f"{list(expected[name].shape)}."
            )
        if not np.isfinite(value).all():
            raise SavedModelError(f"{path}: {name!r} holds values that are not finite.")
    for variable, name in zip(model.trainable_variables, expected, strict=True):
        variable.assign(weights[name])


def _sha256(path: pathlib.Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SavedModelError(f"{path}: cannot be read ({type(error).__name__}).") from None
