"""The gate of every export: the checks that must pass before a file appears under its name.

There are two kinds of checks. A file that contradicts itself or the weights it was made from is
broken, and no option accepts it. These checks need no text:

    the table   each row is read back from the bytes (`stored_table`)
    the strips  the strips of `step` and `predict` agree with the file's own logits (`shown_words`)
    training    `train`, `weights` and `set_weights` of a trainable file (`training_signatures`)

A file that rounds too much loses accuracy, which --allow-loss accepts. This check needs text
(`parity`).
"""

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models import NextWordModel
from tflite_export.gate import parity, shown_words, stored_table, training_signatures
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


def check_contents(
    data: bytes, predictor: KeyboardPredictor, model: NextWordModel, vocabulary: Vocabulary
) -> None:
    """Checks that a file holds the trained weights and shows the words that it computes.

    Args:
      data: Bytes of the file.
      predictor: The same file, opened with its vocabulary and manifest.
      model: The trained model.
      vocabulary: The run's vocabulary, whose ids `model` uses.

    Raises:
      CheckFailed: If a check fails.
    """
    # Matched by the words of the written vocabulary: a row stored under another word is found.
    rows = parity.rows_of(predictor.index.vocabulary, vocabulary)
    table, _ = model.output_table
    stored_table.check_table(data, np.asarray(table)[rows])
    shown_words.check_made_up(predictor)
    if predictor.manifest.model.trainable:
        training_signatures.check_training(predictor, model, rows)
