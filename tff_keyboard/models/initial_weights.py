"""Starts training from a saved model instead of random weights."""

import os

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.storage.errors import SavedModelError


def assign_initial_weights(
    model: NextWordModel, directory: str | os.PathLike[str], vocabulary: Vocabulary
) -> list[np.ndarray]:
    """Gives `model` the weights of the saved model in `directory`, in `trainable_variables` order.

    The vocabulary is that of the text to be trained on. Raises `SavedModelError` if it is missing
    or damaged, or has another vocabulary or architecture.
    """
    saved, saved_vocabulary = load_model(directory)
    if saved_vocabulary != vocabulary:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' has another vocabulary than the client store. "
            "Prepare the store with `data.vocabulary_path` set to the model's vocabulary.txt."
        )
    if saved.architecture != model.architecture:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' is a {saved.name_in_registry} with "
            f"{saved.options}, the config describes a {model.name_in_registry} with "
            f"{model.options}. Change the section [model]."
        )
    weights = saved.get_weights()
    model.set_weights(weights)
    return weights
