"""A trained model on disk: what the task `train` leaves and every later task takes.

    weights.npz      arrays by weight name, float32, no pickles
    vocabulary.txt   `Vocabulary.save`
    model.json       {"format", "name", "vocabulary_size", "options", "sha256": {file: digest}},
                     and of a training "rounds": those it had when it saved the model

A model appears whole or not at all (`storage/directories.py`). Reading checks both digests, names,
shapes and that every weight is finite.
"""

import hashlib
import io
import json
import os
import pathlib
import zipfile
from collections.abc import Mapping

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.registry import build_model
from tff_keyboard.storage import directories, names
from tff_keyboard.storage.errors import SavedModelError
from tff_keyboard.storage.model_description import (
    FORMAT,
    read_description,
    warn_if_training_went_on,
)

Path = str | os.PathLike[str]


def weights_by_name(model: NextWordModel) -> dict[str, np.ndarray]:
    """The model's weights in `trainable_variables` order, under their own names."""
    named = {v.name.split("/")[-1].split(":")[0]: v.numpy() for v in model.trainable_variables}
    assert len(named) == len(model.trainable_variables), "weight names must be unique"
    return named


def save_model(
    directory: Path, model: NextWordModel, vocabulary: Vocabulary, *, rounds: int | None = None
) -> None:
    """Writes `directory`; one that is there already is replaced once the new one is complete.

    Args:
      directory: Directory of the model.
      model: Its weights are written as they are now.
      vocabulary: Vocabulary whose rows the model has.
      rounds: Rounds of the training so far, where there was one: tells this model from that of a
        training that goes on.

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

    # All in memory first: on a full disk an archive that is written piece by piece complains twice.
    content = {names.WEIGHTS: _archive(weights), names.VOCABULARY: vocabulary.to_bytes()}
    description = {
        "format": FORMAT,
        "name": model.name_in_registry,
        "vocabulary_size": model.vocabulary_size,
        "options": model.options,
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in content.items()},
    }
    if rounds is not None:
        description["rounds"] = rounds
    content[names.MODEL_DESCRIPTION] = (json.dumps(description, indent=2) + "\n").encode()
    with directories.new_directory(pathlib.Path(directory)) as work:
        for name, data in content.items():
            (work / name).write_bytes(data)


def load_model(directory: Path) -> tuple[NextWordModel, Vocabulary]:
    """Reads what `save_model` wrote.

    A run that is trained on keeps the model of fewer rounds until it ends, so that it can still be
    used. Who asks for it by the name of the run is warned.

    Args:
      directory: A saved model, or a run directory that holds one under `model/`.

    Raises:
      SavedModelError: There is no model, it is damaged, or of another format.
    """
    given = pathlib.Path(directory)
    directory, description = read_description(given)
    for name, digest in description["sha256"].items():
        if _sha256(directory / name) != digest:
            raise SavedModelError(
                f"{directory / name}: the content is not what {names.MODEL_DESCRIPTION} recorded. "
                "Copy the directory again, or train again."
            )
    sizes = {"vocabulary_size": description["vocabulary_size"], **description["options"]}
    weights = _read_weights(directory / names.WEIGHTS)
    _check_sizes(directory, sizes, weights)
    try:
        model = build_model(
            description["name"],
            seed=None,  # every weight is overwritten below
            **sizes,
        )
    except (TypeError, ValueError) as error:
        raise SavedModelError(f"{directory / names.MODEL_DESCRIPTION}: {error}") from None
    _assign(model, weights, directory / names.WEIGHTS)
    vocabulary = Vocabulary.load(directory / names.VOCABULARY)
    if len(vocabulary) != description["vocabulary_size"]:
        raise SavedModelError(
            f"{directory}: {names.VOCABULARY} has {len(vocabulary)} rows, "
            f"{names.MODEL_DESCRIPTION} says {description['vocabulary_size']}. The files come from "
            "different models."
        )
    if directory != given:
        warn_if_training_went_on(directory, description)
    return model, vocabulary


def _archive(weights: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **weights)
    return file.getvalue()


def _check_sizes(
    directory: pathlib.Path, sizes: Mapping[str, object], weights: dict[str, np.ndarray]
) -> None:
    """Refuses sizes that no weight has before a model of that size is allocated."""
    largest = max((size for value in weights.values() for size in value.shape), default=0)
    for name, value in sizes.items():
        if isinstance(value, int) and value > largest:
            raise SavedModelError(
                f"{directory / names.MODEL_DESCRIPTION}: `{name}` = {value}, but no side of a "
                f"weight in {names.WEIGHTS} is longer than {largest}. The files come from "
                "different models."
            )


def _read_weights(path: pathlib.Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise SavedModelError(f"{path}: cannot be read ({type(error).__name__}).") from None


def _assign(model: NextWordModel, weights: dict[str, np.ndarray], path: pathlib.Path) -> None:
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
