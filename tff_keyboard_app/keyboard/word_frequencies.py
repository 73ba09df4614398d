"""Estimates how common each word is, by the model itself.

An export has no counts. The mean of the model's next-word distributions along texts that it writes
is its own unigram distribution: E[p(w | context)] over contexts drawn from the model. A few hundred
positions are enough to distinguish a word from another one that is twenty times as common, which is
all that is needed.
"""

import numpy as np

from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tff_keyboard.storage.errors import ExportError
from tflite_export.runtime.keyboard_predictor import KeyboardPredictor

_SENTENCES = 16
_WORDS = 12


def word_frequencies(predictor: KeyboardPredictor) -> dict[str, float]:
    """Returns word -> probability, always the same for the same file.

    Takes about 0.1 s for 10,000 words.

    Raises:
      ExportError: If all words have probability 0.
    """
    random = np.random.default_rng(0)
    words = predictor.vocabulary.words
    total = np.zeros(len(words))
    for _ in range(_SENTENCES):
        context: list[str] = []
        for _ in range(_WORDS):
            probabilities = predictor.next_word(context).astype(np.float64)
            probabilities[:NUM_SPECIAL] = 0.0
            if not probabilities.any():
                raise ExportError(
                    f"{predictor.path}: every word has probability 0. Export it again."
                )
            probabilities /= probabilities.sum()
            total += probabilities
            context.append(words[random.choice(len(words), p=probabilities)])
    predictor.reset()
    total /= total.sum()
    return dict(zip(words[NUM_SPECIAL:], total[NUM_SPECIAL:].tolist(), strict=True))
