"""Strips against softmax and sorting in float64."""

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import NUM_SPECIAL
from tflite_export.gate.shown_words import compare_strips

RANDOM = np.random.default_rng(0)
ROWS = 20
LOGITS = RANDOM.normal(size=[6, ROWS]).astype(np.float32)


def strips(logits, k=3):
    """Returns the strips of a valid file."""
    scores = logits.astype(np.float64)
    truth = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    ids = np.argsort(-truth[:, NUM_SPECIAL:], axis=1)[:, :k] + NUM_SPECIAL
    return ids.astype(np.int32), np.take_along_axis(truth, ids, axis=1).astype(np.float32)


def test_sound_strips_are_right():
    wrong, error = compare_strips(LOGITS, *strips(LOGITS))
    assert not wrong.any()
    assert error < 1e-6


def test_a_model_that_is_sure_is_checked_by_its_small_probabilities():
    logits = 30 * LOGITS
    ids, probabilities = strips(logits)
    assert probabilities.min() < 1e-6
    assert not compare_strips(logits, ids, probabilities)[0].any()
    probabilities[:, -1] *= 1.01
    assert compare_strips(logits, ids, probabilities)[0].all()


def test_a_model_that_is_sure_of_nothing_is_checked():
    logits = 1e-2 * LOGITS
    ids, probabilities = strips(logits)
    assert not compare_strips(logits, ids, probabilities)[0].any()
    worst_ids, worst = strips(-logits)
    assert compare_strips(logits, worst_ids, worst)[0].all()


def test_ties_may_be_broken_either_way():
    logits = LOGITS.copy()
    logits[:, 7] = logits[:, 9] = 5.0
    ids, probabilities = strips(logits)
    for first, second in ((7, 9), (9, 7)):
        ids[:, :2] = first, second
        assert not compare_strips(logits, ids, probabilities)[0].any()
    ids[:, :2] = 7, 7
    assert compare_strips(logits, ids, probabilities)[0].all()


@pytest.mark.parametrize(
    "change",
    [
        lambda ids, p: (ids - NUM_SPECIAL, p),
        lambda ids, p: (ids[:, ::-1], p[:, ::-1]),
        lambda ids, p: (np.roll(ids, 1, axis=1), p),
        lambda ids, p: (ids, p * np.float32(1.01)),
        lambda ids, p: (ids, p * np.float32(np.nan)),
        lambda ids, p: (ids * 0 + ROWS, p),
        lambda ids, p: (ids * 0 + 1, p),
    ],
    ids=["offset", "backwards", "rolled", "probabilities", "nan", "no row", "special"],
)
def test_any_other_strip_is_wrong(change):
    wrong, _ = compare_strips(LOGITS, *change(*strips(LOGITS)))
    assert wrong.all()


def test_one_wrong_strip_is_found_among_sound_ones():
    ids, probabilities = strips(LOGITS)
    ids[4] = ids[4][::-1]
    wrong, _ = compare_strips(LOGITS, ids, probabilities)
    assert np.flatnonzero(wrong).tolist() == [4]
