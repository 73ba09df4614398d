"""Averages of iterates against NumPy, from whichever round, stopped and resumed."""

from typing import NamedTuple

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_keyboard.algorithms.rounds.averaged import AveragedProcess
from tff_keyboard.config.sections.averaging_config import ExponentialAverage

ModelWeights = tff.learning.models.ModelWeights


class State(NamedTuple):
    model: np.ndarray


class TffState(NamedTuple):
    """As a TFF learning process holds its model."""

    global_model_weights: ModelWeights


class Walk:
    """The model after a round is the mean of its data; `lookups` counts `get_model_weights`."""

    def __init__(self):
        self.lookups = 0

    def initialize(self):
        return State(np.zeros(3, np.float32))

    def next(self, state, datasets):
        class Output(NamedTuple):
            state: State
            metrics: dict

        return Output(State(np.mean(datasets, axis=0).astype(np.float32)), {"loss": 0.5})

    def get_model_weights(self, state):
        self.lookups += 1
        return ModelWeights([state.model], [])


ITERATES = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)


def run(averaging, iterates=ITERATES, state=None):
    process = AveragedProcess(Walk(), averaging)
    state = process.initialize() if state is None else state
    for iterate in iterates:
        state = process.next(state, [iterate]).state
    return process, state


def numpy_average(averaging, iterates):
    kept = np.asarray(iterates, np.float64)[averaging.first_round - 1 :]
    if not len(kept):
        return np.asarray(iterates[-1], np.float64)
    weights = averaging.decay ** np.arange(len(kept))[::-1]
    return weights @ kept / weights.sum()


@pytest.mark.parametrize(
    "averaging",
    [
        ExponentialAverage(decay=0.9),
        ExponentialAverage(decay=0.01),
        ExponentialAverage(decay=0.999, first_round=3),
        ExponentialAverage(decay=0.5, first_round=5),
        ExponentialAverage(decay=0.5, first_round=100),
    ],
    ids=str,
)
@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_matches_numpy(averaging, rounds):
    process, state = run(averaging, ITERATES[:rounds])
    weights = process.get_model_weights(state)
    expected = numpy_average(averaging, ITERATES[:rounds])
    np.testing.assert_allclose(weights.average.trainable[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(weights.last.trainable[0], ITERATES[rounds - 1])


def test_a_resumed_run_has_the_same_bits():
    averaging = ExponentialAverage(decay=0.9, first_round=2)
    _, straight = run(averaging)
    _, half = run(averaging, ITERATES[:3])
    _, resumed = run(averaging, ITERATES[3:], half)
    np.testing.assert_array_equal(straight.average[0], resumed.average[0])
    assert straight.rounds == resumed.rounds == 7


def test_metrics_are_those_of_the_process():
    process = AveragedProcess(Walk(), ExponentialAverage(decay=0.5))
    assert process.next(process.initialize(), [ITERATES[0]]).metrics == {"loss": 0.5}


def test_a_model_that_lies_in_the_state_is_not_asked_for():
    """TFF's own look-up would send the whole state to a worker in each round."""

    class Held(Walk):
        def initialize(self):
            return TffState(ModelWeights([np.zeros(3, np.float32)], []))

        def next(self, state, datasets):
            output = super().next(state, datasets)
            held = TffState(ModelWeights([output.state.model], []))
            return output._replace(state=held)

    inner = Held()
    averaging = ExponentialAverage(decay=0.5)
    process = AveragedProcess(inner, averaging)
    state = process.initialize()
    for iterate in ITERATES[:2]:
        state = process.next(state, [iterate]).state
    assert inner.lookups == 0
    expected = numpy_average(averaging, ITERATES[:2])
    np.testing.assert_allclose(state.average[0], expected, rtol=1e-6)


@pytest.mark.parametrize(
    "build, words",
    [
        (lambda: ExponentialAverage(decay=1.0), r"`averaging.decay` must be in \(0, 1\)"),
        (lambda: ExponentialAverage(first_round=0), "`averaging.first_round` must be >= 1"),
    ],
)
def test_rejects(build, words):
    with pytest.raises(ValueError, match=words):
        build()
