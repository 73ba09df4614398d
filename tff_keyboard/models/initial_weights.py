"""Starts training from a saved model instead of random weights.

The text to be trained on may have words of its own. Rows of words that the saved model has, too,
are copied; any other word keeps the row that it was drawn.
"""

import os

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL, OOV, SPECIAL_IDS, Vocabulary
from tff_keyboard.models.next_word_model import NextWordModel
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.storage.errors import SavedModelError


def assign_initial_weights(
    model: NextWordModel, directory: str | os.PathLike[str], vocabulary: Vocabulary
) -> int:
    """Gives `model` the weights of the saved model in `directory`, word by word.

    The vocabulary is that of the text to be trained on, whose rows `model` has. The result is how
    many of its words the saved model knows. Raises `SavedModelError` if the saved model is missing
    or damaged, made its words of text by other rules, or is of another architecture.
    """
    saved, known = load_model(directory)
    if known.rules != vocabulary.rules:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' made words of text by the rules "
            f"{known.rules.as_json()}, the client store by {vocabulary.rules.as_json()}. Prepare "
            "the store with these `data.mode`, `data.lowercase` and `data.language`."
        )
    if saved.architecture != model.architecture:
        raise SavedModelError(
            f"`model.initial_model` = '{directory}' is a {saved.name_in_registry} with "
            f"{saved.options}, the config describes a {model.name_in_registry} with "
            f"{model.options}. Change the section [model]."
        )
    rows = np.array([*SPECIAL_IDS, *known.encode(vocabulary.words[NUM_SPECIAL:])])
    is_known = rows != OOV
    is_known[OOV] = True
    tables = [saved.embedding, *saved.output_table]
    for variable, source in zip(model.trainable_variables, saved.trainable_variables, strict=True):
        value = source.numpy()
        if any(source is table for table in tables):
            drawn = variable.numpy().copy()
            drawn[is_known] = value[rows[is_known]]
            value = drawn
        variable.assign(value)
    return int(is_known.sum()) - NUM_SPECIAL
