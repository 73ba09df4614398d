"""Reliability of models with known calibration."""

import numpy as np
import pytest

from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.evaluation.counts import predictor_evaluation
from tff_keyboard.evaluation.counts.typed_text import TypedText
from tff_keyboard.evaluation.statistics.reliability import expected_calibration_error, reliability

WORDS = [f"w{i}" for i in range(12)]
VOCABULARY = Vocabulary((*SPECIAL_WORDS, *WORDS), NormalisationRules())
TRUTH = np.concatenate([[0.0, 0.0, 0.05, 0.05], 0.9 * np.arange(12, 0, -1) / 78])


class Fixed:
    """A model with the same distribution everywhere, without PAD and BOS."""

    vocabulary = VOCABULARY

    def __init__(self, inverse_temperature=1.0):
        with np.errstate(divide="ignore"):
            scores = inverse_temperature * np.log(TRUTH)
        self.scores = (scores - np.log(np.exp(scores).sum())).astype(np.float32)

    def suggest(self, context, prefix="", k=3):
        raise NotImplementedError

    def log_probabilities(self, ids):
        return np.tile(self.scores, [np.count_nonzero(ids), 1])


def typed(messages=300, seed=0):
    """Draws messages whose words and ends follow TRUTH."""
    rng = np.random.default_rng(seed)
    people = []
    for _ in range(3):
        person = []
        for _ in range(messages // 3):
            targets = []
            while not targets or targets[-1] != 2:
                target = rng.choice(16, p=TRUTH)
                if targets or target != 2:  # no message is empty
                    targets.append(target)
            person.append(["zzz" if t == 3 else VOCABULARY.words[t] for t in targets[:-1]])
        people.append(person)
    return TypedText("t", ("a", "b", "c"), tuple(people))


def error_of(predictor, text):
    counts = predictor_evaluation.evaluate(predictor, text)
    return expected_calibration_error(reliability(counts.slices["confidence"]))


def test_reliability_matches_each_bin():
    slices = {
        "low": {
            "impressions": np.array([60, 40]),
            "confidence": np.array([6.0, 4.0]),
            "hits_at_1": np.array([10, 20]),
        },
        "high": {
            "impressions": np.array([50, 50]),
            "confidence": np.array([40.0, 40.0]),
            "hits_at_1": np.array([40, 30]),
        },
    }
    low, high = reliability(slices)
    assert (low.positions, low.claimed, low.right) == (100, 0.1, 0.3)
    assert (high.positions, high.claimed, high.right) == (100, 0.8, 0.7)
    assert expected_calibration_error([low, high]) == pytest.approx(0.15)
    assert np.isnan(expected_calibration_error([]))


def test_calibrated_model_is_on_the_diagonal():
    text = typed()
    claim = TRUTH[4:].max()
    assert np.exp(Fixed().scores[4:].max()) == pytest.approx(claim)
    counts = predictor_evaluation.evaluate(Fixed(), text)
    (point,) = reliability(counts.slices["confidence"])
    hits = sum(
        word == WORDS[0] for person in text.messages for message in person for word in message
    )
    assert point.claimed == pytest.approx(claim)
    assert point.right == pytest.approx(hits / point.positions)


def test_an_overconfident_model_has_a_larger_error():
    text = typed()
    assert error_of(Fixed(), text) < 0.02
    assert error_of(Fixed(3.0), text) > 0.1
