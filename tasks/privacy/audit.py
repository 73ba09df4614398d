"""Tells how well a trained model knows phrases that were planted in its training text.

tff-keyboard audit runs/sms --phrases=planted.txt

Each line of the file is a phrase made of words of the vocabulary. The phrases were put into
somebody's messages before the training; here each is compared with random phrases of as many words
(exposure, Carlini et al. 2019). Plant random words: what people write anyway looks memorised.
Results name a phrase by its line and never print it. docs/privacy.md says what the figure is worth.
"""

import dataclasses
import pathlib
from typing import Annotated

from ..options import Range, TaskOptions, Words
from tff_keyboard.host import quiet, text_table
from tff_keyboard.storage.errors import DataError
from tff_keyboard.storage.model_description import read_description


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    """What the task can be told."""

    model: Annotated[pathlib.Path, Words("a run directory or a saved model")]
    phrases: Annotated[pathlib.Path, "File with a planted phrase a line."]
    random: Annotated[int, "Random phrases to compare with.", Range(100)] = 10_000
    seed: Annotated[int, "Seed of the random phrases.", Range(0)] = 1


def run(options: Options) -> None:
    """Prints the exposure of each phrase.

    Raises:
      DataError: The file cannot be read, or a line has a word that the model does not know.
      SavedModelError: There is no model.
    """
    read_description(options.model)  # before TensorFlow is imported
    lines = _read_lines(options.phrases)
    quiet.import_tensorflow()
    import numpy as np

    from tff_keyboard.audits import exposure
    from tff_keyboard.data.vocabulary import NUM_SPECIAL
    from tff_keyboard.models.generation import text_log_probabilities
    from tff_keyboard.models.saved_model import load_model

    model, vocabulary = load_model(options.model)
    rows = [["line", "words", "exposure, bits", "nats a word"]]
    compared: dict[int, np.ndarray] = {}
    for number, line in lines:
        ids = np.array([vocabulary.encode(line)], np.int32)
        unknown = int(np.sum(ids < NUM_SPECIAL))
        if unknown:
            raise DataError(
                f"{options.phrases} line {number}: {unknown} of {ids.size} words are not in the "
                "model's vocabulary. Plant words that are."
            )
        words = ids.shape[1]
        if words not in compared:
            drawn = exposure.random_phrases(options.random, words, len(vocabulary), options.seed)
            compared[words] = text_log_probabilities(model, drawn)
        own = float(text_log_probabilities(model, ids)[0])
        found = exposure.exposure(own, compared[words], words=words)
        bits = f"{'>= ' if found.is_bound else ''}{found.bits:.1f}"
        rows.append([str(number), str(words), bits, f"{found.nats_per_word:.2f}"])
    print(text_table.aligned(rows, left=0))
    print(
        "A phrase that was never seen has 1.4 bits on average, and b bits or more with chance 2^-b."
    )


def _read_lines(path: pathlib.Path) -> list[tuple[int, list[str]]]:
    """Number and words of each line that is not empty."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise DataError(f"Cannot read {path}: {reason}.") from None
    lines = [(n, line.split()) for n, line in enumerate(text.splitlines(), start=1)]
    lines = [(n, words) for n, words in lines if words]
    if not lines:
        raise DataError(f"{path} has no phrases: give one a line.")
    return lines
