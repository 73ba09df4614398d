"""Starts training from a saved model instead of random weights.

The training text may contain new words. Rows of words that the saved model also has are copied. All
other words keep their random rows.
"""

import os

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, SPECIAL_IDS, Vocabulary
from tff_keyboard.models.next_word_model import NextWordModel, with_word_rows
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.storage.errors import SavedModelError


def assign_initial_weights(
    model: NextWordModel, directory: str | os.PathLike[str], vocabulary: Vocabulary
) -> int:
    """Assigns the weights of the saved model in `directory` to `model`, word by word.

    Args:
      model: The model to train.
      directory: A saved model.
      vocabulary: The vocabulary of the training text, which gives the rows of `model`.

    Returns:
      The number of its words that the saved model has.

    Raises:
      SavedModelError: If the saved model is missing or damaged, has other normalisation rules, or
        has another architecture.
    """
    saved, known = load_model(directory)
    if known.rules != vocabulary.rules:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' has the tokenisation rules "
            f"{known.rules.as_json()}, but the client store has {vocabulary.rules.as_json()}. "
            "Prepare the store with the model's `data.mode`, `data.lowercase` and `data.language`."
        )
    if saved.architecture != model.architecture:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' is a {saved.name_in_registry} with "
            f"{saved.options}, but the config describes a {model.name_in_registry} with "
            f"{model.options}. Change section [model]."
        )
    rows = np.array([*SPECIAL_IDS, *known.encode(vocabulary.words[NUM_SPECIAL:])])
    is_known = rows != OOV
    is_known[OOV] = True
    for variable, source, axes in zip(
        model.trainable_variables, saved.trainable_variables, model.word_axes, strict=True
    ):
        variable.assign(_with_words(variable.numpy(), source.numpy(), axes, rows, is_known))
    return int(is_known.sum()) - NUM_SPECIAL


def _with_words(
    drawn: np.ndarray,
    saved: np.ndarray,
    axes: tuple[int, ...],
    rows: np.ndarray,
    is_known: np.ndarray,
) -> np.ndarray:
    """Returns the saved weight with the drawn entries of unknown words along `axes`."""
    value = drawn.copy()
    positions = [np.arange(size) for size in drawn.shape]
    for axis in axes:
        positions[axis] = np.flatnonzero(is_known)
    entries = np.ix_(*positions)
    value[entries] = with_word_rows(saved, axes, rows)[entries]
    return value
