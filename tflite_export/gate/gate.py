"""The gate of every export: what must hold before a file appears under its name.

Two kinds of checks. A file that contradicts itself or the weights it was made of is broken, and no
option lets it through; these need no text:

    the table   each row read back from the bytes (`stored_table`)
    the strips  what `step` and `predict` show, against the file's own logits (`shown_words`)
    training    `train`, `weights` and `set_weights` of a trainable file (`training_signatures`)

A file that rounds too much is a loss, which --allow-loss accepts; that takes text (`parity`).
"""

import numpy as np

from tff_keyboard.data.vocabulary import Vocabulary
from tff_keyboard.models import NextWordModel
from tflite_export.gate import parity, shown_words, stored_table, training_signatures
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor


def check_contents(
    data: bytes, predictor: KeyboardPredictor, model: NextWordModel, vocabulary: Vocabulary
) -> None:
    """Raises `CheckFailed` unless a file holds what was trained and shows what it computes.

    `data` is the file, and `predictor` reads it, with the vocabulary and manifest beside it.
    """
    # By the words as they were written: rows that left with other words would show, too.
    rows = parity.rows_of(predictor.index.vocabulary, vocabulary)
    table, _ = model.output_table
    stored_table.check_table(data, np.asarray(table)[rows])
    shown_words.check_made_up(predictor)
    if predictor.manifest.model.trainable:
        training_signatures.check_training(predictor, model, rows)
