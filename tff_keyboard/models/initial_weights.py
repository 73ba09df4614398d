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
    saved, saved_vocabulary = load_model(directory)
    if saved_vocabulary.rules != vocabulary.rules:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' has the tokenisation rules "
            f"{saved_vocabulary.rules.as_json()}, but the client store has "
            f"{vocabulary.rules.as_json()}. "
            "Prepare the store with the model's `data.mode`, `data.lowercase` and `data.language`."
        )
    if saved.architecture != model.architecture:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' is a {saved.name_in_registry} with "
            f"{saved.options}, but the config describes a {model.name_in_registry} with "
            f"{model.options}. Change section [model]."
        )
    rows = np.array([*SPECIAL_IDS, *saved_vocabulary.encode(vocabulary.words[NUM_SPECIAL:])])
    is_in_saved = rows != OOV
    is_in_saved[OOV] = True
    for variable, source, axes in zip(
        model.trainable_variables, saved.trainable_variables, model.word_axes, strict=True
    ):
        variable.assign(_with_words(variable.numpy(), source.numpy(), axes, rows, is_in_saved))
    return int(is_in_saved.sum()) - NUM_SPECIAL


def _with_words(
    random_weight: np.ndarray,
    saved: np.ndarray,
    axes: tuple[int, ...],
    rows: np.ndarray,
    is_in_saved: np.ndarray,
) -> np.ndarray:
    """Returns the saved weight, with the random entries of words that it does not have.

    Args:
      random_weight: The weight of the model to train.
      saved: The weight of the saved model.
      axes: The axes whose positions are words.
      rows: [V] the position of each word in `saved`.
      is_in_saved: [V] bool, whether `saved` has the word.
    """
    value = random_weight.copy()
    positions = [np.arange(size) for size in random_weight.shape]
    for axis in axes:
        positions[axis] = np.flatnonzero(is_in_saved)
    entries = np.ix_(*positions)
    value[entries] = with_word_rows(saved, axes, rows)[entries]
    return value
