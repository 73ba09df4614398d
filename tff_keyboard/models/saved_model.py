"""A trained model on disk: the result of the task `train`, and the input of all later tasks.

    weights.npz      arrays by weight name, float32, no pickles
    vocabulary.txt   `Vocabulary.save`
    model.json       {"format", "name", "vocabulary_size", "options", "sha256": {file: digest}},
                     and after a training "rounds", the finished rounds when it was saved,
                     "run_id", the random id of its run, and "private", true if its run had a
                     mechanism of privacy; the model of a user also has "source": {"version",
                     "sha256"} of its code

A model appears completely or not at all (`storage/directories.py`). Reading checks both digests,
names, shapes and that every weight is finite.

The model of a user is built by the code that its `name` refers to (`storage/part_reference.py`).
The code runs only if it has the recorded SHA-256, and if the user named it before, because the
directory of a model may come from another person (`storage/trusted_code.py`).
"""

import hashlib
import io
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models.keras_next_word_model import is_buildable
from tff_keyboard.models.model_factory import build_model
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.storage import directories, files, names, npz, part_reference, trusted_code
from tff_keyboard.storage.errors import ConfigError, SavedModelError, printable
from tff_keyboard.storage.model_description import (
    FORMAT,
    read_description,
    warn_if_training_went_on,
)

Path = str | os.PathLike[str]


def weights_by_name(model: NextWordModel) -> dict[str, np.ndarray]:
    """Returns name -> weight in `trainable_variables` order."""
    named = {_name_of(v): v.numpy() for v in model.trainable_variables}
    assert len(named) == len(model.trainable_variables), "weight names must be unique"
    return named


def save_model(
    directory: Path,
    model: NextWordModel,
    vocabulary: Vocabulary,
    *,
    rounds: int | None = None,
    has_stopped_early: bool = False,
    is_start: bool = False,
    run_id: str = "",
    is_private: bool = False,
    continues_private_run: bool = False,
) -> None:
    """Writes a model. An existing directory is replaced once the new one is complete.

        save_model("my_model", model, vocabulary)
        model, vocabulary = load_model("my_model")

    Args:
      directory: Directory of the model.
      model: The model. Its current weights are written.
      vocabulary: Vocabulary that gives the rows of the model.
      rounds: Finished rounds of the training, if any. It distinguishes this model from later ones
        of the same training.
      has_stopped_early: Whether the training ended after these rounds, before all of its config.
      is_start: Whether these are the weights from before the first round, because no round was
        better.
      run_id: The random id of the run that trained it, if any.
      is_private: Whether it was trained with differential privacy. Exports of a copy of the model
        then use no text of its clients, as exports of the run.
      continues_private_run: Whether a run that led to its initial model was private.

    Raises:
      ValueError: If model and vocabulary differ in size, a weight is not finite, or the model
        cannot be built again, because it is a Keras model that was not built by `build_model`.
      OSError: If the directory cannot be written, is a link, or has other files in it. An existing
        directory is unchanged.
    """
    if not isinstance(model, NextWordModel) or not is_buildable(model):
        raise ValueError(
            f"The model '{model.name}' cannot be built again when it is loaded. Build it with "
            "`build_model('file.py:function', ...)`, assign its weights, and save that model."
        )
    if model.vocabulary_size != len(vocabulary):
        raise ValueError(
            f"The model has {model.vocabulary_size} output rows, but the vocabulary has "
            f"{len(vocabulary)}: they do not belong together."
        )
    weights = weights_by_name(model)
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise ValueError(f"Weight {name!r} is not finite, so the model is not saved.")

    # Built in memory, because an archive written in pieces raises two errors on a full disk.
    archive = io.BytesIO()
    np.savez(archive, **weights)
    description: dict[str, object] = {
        "format": FORMAT,
        "name": model.name_in_registry,
        "vocabulary_size": model.vocabulary_size,
        "options": model.options,
        "sha256": {},  # stands here in the file
    }
    if model.source is not None:
        description["source"] = {
            "version": model.source.version,
            "sha256": model.source.sha256,
        }
    if rounds is not None:
        description["rounds"] = rounds
    if has_stopped_early:
        description["stopped_early"] = True
    if is_start:
        description["is_start"] = True
    if run_id:
        description["run_id"] = run_id
    if is_private or model.is_private:
        description["private"] = True
    if continues_private_run or model.continues_private_run:
        description["continues_private_run"] = True
    write_files(directory, description, archive.getvalue(), vocabulary.to_bytes())


def write_files(
    directory: Path, description: Mapping[str, object], weights: bytes, vocabulary: bytes
) -> None:
    """Writes the files of a model. An existing directory is replaced once the new one is complete.

    Args:
      directory: Directory of the model.
      description: Content of `model.json`. Its "sha256" is replaced by the digests of the files.
      weights: Content of `weights.npz`.
      vocabulary: Content of `vocabulary.txt`.

    Raises:
      OSError: If the directory cannot be written, is a link, or has other files in it. An existing
        directory is unchanged.
    """
    content = {names.WEIGHTS: weights, names.VOCABULARY: vocabulary}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in content.items()}
    text = json.dumps({**description, "sha256": digests}, indent=2) + "\n"
    content[names.MODEL_DESCRIPTION] = text.encode()
    with directories.new_directory(pathlib.Path(directory), replaces=names.MODEL_FILES) as work:
        for name, data in content.items():
            (work / name).write_bytes(data)


def load_model(directory: Path) -> tuple[NextWordModel, Vocabulary]:
    """Reads a model that `save_model` wrote.

    A resumed run keeps the model of its earlier rounds until it ends. Loading that model by the run
    directory gives a warning.

        model, vocabulary = load_model("runs/sms")

    Args:
      directory: A saved model, or a run directory with one in `model/`.

    Raises:
      SavedModelError: If the model is missing, damaged or has another format.
    """
    location = pathlib.Path(directory)
    directory, description = read_description(location)
    with trusted_code.named_by_file():
        return _load(location, directory, description)


def _load(
    location: pathlib.Path, directory: pathlib.Path, description: Mapping[str, Any]
) -> tuple[NextWordModel, Vocabulary]:
    """Reads the model in `directory`, which the caller named as `location`."""
    for name, digest in description["sha256"].items():
        if _sha256(directory / name) != digest:
            raise SavedModelError(
                f"{directory / name}: the content does not match {names.MODEL_DESCRIPTION}. "
                "Copy the directory again, or train again."
            )
    sizes = {"vocabulary_size": description["vocabulary_size"], **description["options"]}
    if part_reference.is_reference(description["name"]):
        _check_source(directory, description)
    path = directory / names.WEIGHTS
    try:
        headers = npz.read_headers(path)
        if not part_reference.is_reference(description["name"]):
            _check_sizes(directory, sizes, headers)
        _check_headers(headers, _expected_shapes(directory, description["name"], sizes), path)
        # Only now it is known how much memory the model needs.
        model = build_model(
            description["name"],
            seed=None,  # every weight is overwritten below
            **sizes,
        )
        _assign(model, npz.read_arrays(path), path)
    except npz.InvalidArchiveError as error:
        raise SavedModelError(
            f"{path}: cannot be read: {error}. Run the command that saved the model again."
        ) from None
    except OSError as error:
        raise SavedModelError(f"{path}: cannot be read ({type(error).__name__}).") from None
    model.is_private = description.get("private") is True
    model.continues_private_run = description.get("continues_private_run") is True
    vocabulary = Vocabulary.load(directory / names.VOCABULARY)
    if len(vocabulary) != description["vocabulary_size"]:
        raise SavedModelError(
            f"{directory}: {names.VOCABULARY} has {len(vocabulary)} rows, but "
            f"{names.MODEL_DESCRIPTION} says {description['vocabulary_size']}. The files come from "
            "different models."
        )
    if directory != location:
        warn_if_training_went_on(directory, description)
    return model, vocabulary


def _check_source(directory: pathlib.Path, description: Mapping[str, Any]) -> None:
    """Checks the code of a user's model before any of it runs."""
    file, name = directory / names.MODEL_DESCRIPTION, description["name"]
    source = description.get("source")
    if not isinstance(source, dict) or not isinstance(source.get("sha256"), str):
        raise SavedModelError(f"{file}: field 'source' is missing or damaged. Train again.")
    try:
        path = part_reference.source_path(name, "name")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except (ConfigError, OSError) as error:
        raise SavedModelError(f"{file}: the code of the model cannot be used: {error}") from None
    if digest != source["sha256"]:
        raise SavedModelError(
            f"{path}: the code of the model {directory} has changed since the training (SHA-256 "
            f"{digest[:12]}.. instead of {printable(source['sha256'])[:12]}..). Restore the file, "
            "or train again."
        )


def _check_sizes(
    directory: pathlib.Path, sizes: Mapping[str, object], headers: dict[str, npz.ArrayHeader]
) -> None:
    """Rejects sizes that no weight has."""
    largest = max((size for header in headers.values() for size in header.shape), default=0)
    for name, value in sizes.items():
        if isinstance(value, int) and value > largest:
            raise SavedModelError(
                f"{directory / names.MODEL_DESCRIPTION}: `{name}` = {value}, but no side of a "
                f"weight in {names.WEIGHTS} is longer than {largest}. The files come from "
                "different models."
            )


def _expected_shapes(
    directory: pathlib.Path, name: str, sizes: Mapping[str, Any]
) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the weights of the model that `model.json` describes.

    A model in a graph that is never run has variables with shapes, but without memory.
    """
    try:
        with tf.Graph().as_default():
            model = build_model(name, seed=None, **sizes)
            return {
                _name_of(variable): tuple(variable.shape) for variable in model.trainable_variables
            }
    except (TypeError, ValueError) as error:
        raise SavedModelError(
            f"{directory / names.MODEL_DESCRIPTION}: {printable(str(error))}"
        ) from None


def _check_headers(
    headers: Mapping[str, npz.ArrayHeader],
    expected: Mapping[str, tuple[int, ...]],
    path: pathlib.Path,
) -> None:
    """Raises `SavedModelError` unless the arrays have the names and shapes of the weights."""
    if set(headers) != set(expected):
        has = printable(str(sorted(headers)))
        raise SavedModelError(
            f"{path}: has the weights {has}, but the model has {sorted(expected)}."
        )
    for name, header in headers.items():
        if header.shape != expected[name] or header.dtype != np.float32:
            raise SavedModelError(
                f"{path}: {name!r} is {header}, but must be float32 {list(expected[name])}."
            )


def _assign(model: NextWordModel, weights: dict[str, np.ndarray], path: pathlib.Path) -> None:
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise SavedModelError(f"{path}: {name!r} has values that are not finite.")
    for variable in model.trainable_variables:
        variable.assign(weights[_name_of(variable)])


def _name_of(variable: Any) -> str:
    name: str = variable.name.split("/")[-1].split(":")[0]
    return name


def _sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    try:
        with files.open_regular(path, follow_link=True) as file:
            while block := file.read(2**20):
                digest.update(block)
    except OSError as error:
        raise SavedModelError(f"{path}: cannot be read ({type(error).__name__}).") from None
    return digest.hexdigest()
