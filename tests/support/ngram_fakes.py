"""Small vocabularies and skewed messages for tests of n-grams."""

import numpy as np

from tff_keyboard.data.vocabulary import OOV, SPECIAL_WORDS, NormalisationRules, Vocabulary


def vocabulary_of(size):
    """Words w00000, w00001, ... behind the special rows; `size` rows in all."""
    words = [f"w{i:05}" for i in range(size - len(SPECIAL_WORDS))]
    return Vocabulary((*SPECIAL_WORDS, *words), NormalisationRules())


def messages_of(seed, count, size=30, longest=9):
    """Messages of 0 to `longest` ids, the lower ones far more often."""
    rng = np.random.default_rng(seed)
    span = size - OOV
    return [
        OOV + (span * rng.random(rng.integers(0, longest + 1)) ** 3).astype(int)
        for _ in range(count)
    ]
