"""Measures how well a trained model remembers phrases that were planted in its training text.

tff-keyboard audit runs/sms --phrases=planted.txt

Before the training, put each phrase into the messages of some client. --phrases is a file with one
phrase per line, made of words of the vocabulary. The task compares each phrase with random phrases
of the same length and prints its exposure (Carlini et al. 2019). Plant random words: phrases that
clients write anyway look memorised. The output refers to a phrase by its line number and never
prints it. docs/privacy.md explains the limits of this measure.
"""

import dataclasses
import pathlib
from typing import Annotated

from absl import flags

from tff_keyboard.command_line.options import Positional, TaskOptions
from tff_keyboard.host import quiet, text_table
from tff_keyboard.storage.errors import DataError
from tff_keyboard.storage.model_description import read_description


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """Flags of `audit`."""

    model: Annotated[pathlib.Path, Positional("a run directory or a saved model")]
    phrases: Annotated[pathlib.Path, "File with one planted phrase per line."]
    random: Annotated[
        int, "Number of random phrases to compare with.", flags.IntegerParser(100)
    ] = 10_000


def run(options: Options) -> None:
    """Prints the exposure of each phrase.

    Raises:
      DataError: If the file cannot be read, or if a word is not in the model's vocabulary.
      SavedModelError: If the model is missing.
    """
    read_description(options.model)  # before TensorFlow is imported
    lines = _read_lines(options.phrases)
    quiet.import_tensorflow()
    import numpy as np

    from tff_keyboard.data.vocabulary import NUM_SPECIAL
    from tff_keyboard.models.generation import text_log_probabilities
    from tff_keyboard.models.saved_model import load_model
    from tff_keyboard_lab.audits import exposure

    model, vocabulary = load_model(options.model)
    rows = [["line", "words", "exposure, bits", "nats per word"]]
    compared: dict[int, np.ndarray] = {}
    for number, line in lines:
        ids = np.array([vocabulary.encode(line)], np.int32)
        unknown = int(np.sum(ids < NUM_SPECIAL))
        if unknown:
            raise DataError(
                f"{options.phrases} line {number}: {unknown} of {ids.size} words are not in the "
                "model's vocabulary. Plant only words of the vocabulary."
            )
        words = ids.shape[1]
        if words not in compared:
            drawn = exposure.random_phrases(options.random, words, len(vocabulary), seed=1)
            compared[words] = text_log_probabilities(model, drawn)
        log_probability = float(text_log_probabilities(model, ids)[0])
        result = exposure.exposure(log_probability, compared[words], words=words)
        bits = f"{'>= ' if result.is_bound else ''}{result.bits:.1f}"
        rows.append([str(number), str(words), bits, f"{result.nats_per_word:.2f}"])
    print(text_table.aligned(rows, left=0))
    print(
        "A phrase that was not in the text has 1.4 bits on average, and at least b bits with "
        "probability 2^-b."
    )


def _read_lines(path: pathlib.Path) -> list[tuple[int, list[str]]]:
    """Returns the number and the words of each line that is not empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise DataError(f"Cannot read {path}: {reason}.") from None
    lines = [(n, line.split()) for n, line in enumerate(text.splitlines(), start=1)]
    lines = [(n, words) for n, words in lines if words]
    if not lines:
        raise DataError(f"{path} has no phrases. Write one phrase per line.")
    return lines
