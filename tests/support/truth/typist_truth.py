"""What a typist of `evaluation/metrics/typists.py` is expected to spend, strip by strip."""

import numpy as np

from tff_keyboard.evaluation.metrics.typists import TYPISTS


def expected_effort(word, strips, typist):
    """How likely the person still types at each strip, what each look and key costs."""
    still, keys, looks = 1.0, 1.0, 0.0  # the space or the tap
    for typed, strip in enumerate(strips):
        looks += still * typist.looks
        if word in strip:
            accepts = typist.accepts[strip.index(word)] if not typed else np.mean(typist.accepts)
            still *= 1 - typist.looks * accepts
        keys += still * (1 + 2 * typist.errors)
    return keys, keys * typist.key_seconds + looks * typist.look_seconds


def add_efforts(sums, predictor, context, word):
    """Adds a word to the sums of all typists."""
    strips = [[w for w, _ in predictor.suggest(context, word[:j], 3)] for j in range(len(word))]
    for name, typist in TYPISTS.items():
        keys, seconds = expected_effort(word, strips, typist)
        sums[f"keys_{name}"] += keys
        sums[f"seconds_{name}"] += seconds
    plain = len(word) * (1 + 2 * typist.errors) + 1
    sums["plain_keys"] += plain
    sums["plain_seconds"] += plain * typist.key_seconds
