"""Rates are put into the state before a round, depend on the round alone, and survive a stop."""

import collections
from typing import NamedTuple

import numpy as np
import pytest

from tff_keyboard.algorithms.rounds.scheduled import ScheduledProcess


class State(NamedTuple):
    model: np.ndarray
    server: collections.OrderedDict


class Output(NamedTuple):
    state: State
    metrics: dict


class Descent:
    """w <- w - rate * mean(datasets): the rate is read from the state, as a TFF finalizer does."""

    def initialize(self):
        inner = collections.OrderedDict(learning_rate=np.float32(1.0), momentum=np.float32(0.9))
        return State(np.zeros(2), collections.OrderedDict(inner=inner))

    def next(self, state, datasets):
        rate = state.server["inner"]["learning_rate"]
        return Output(
            State(state.model - rate * np.mean(datasets, axis=0), state.server), {"loss": 1.0}
        )

    def get_model_weights(self, state):
        return state.model


def rates(round_num):
    return {"server": 1.0 / round_num}


def run(process, rounds, state=None):
    state = process.initialize() if state is None else state
    outputs = []
    for _ in range(rounds):
        outputs.append(process.next(state, [np.ones(2), 3 * np.ones(2)]))
        state = outputs[-1].state
    return outputs


def test_each_round_trains_with_its_rate():
    process = ScheduledProcess(Descent(), rates)
    outputs = run(process, 4)
    expected = -2 * np.cumsum([1 / t for t in (1, 2, 3, 4)])
    found = [process.get_model_weights(output.state)[0] for output in outputs]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert [output.metrics["learning_rate"] for output in outputs] == [
        {"server": 1 / t} for t in (1, 2, 3, 4)
    ]
    assert all(output.metrics["loss"] == 1.0 for output in outputs)
    assert outputs[-1].state.process.server["inner"]["momentum"] == np.float32(0.9)


def test_a_resumed_run_has_the_rates_it_would_have_had():
    process = ScheduledProcess(Descent(), rates)
    straight = run(process, 5)
    resumed = run(ScheduledProcess(Descent(), rates), 3, straight[1].state)
    np.testing.assert_array_equal(resumed[-1].state.process.model, straight[-1].state.process.model)


@pytest.mark.parametrize(
    "server, found",
    [
        (collections.OrderedDict(momentum=np.float32(0)), 0),
        (
            collections.OrderedDict(
                a=collections.OrderedDict(learning_rate=1.0),
                b=collections.OrderedDict(learning_rate=1.0),
            ),
            2,
        ),
    ],
)
def test_a_state_without_its_one_rate_is_refused(server, found):
    process = ScheduledProcess(Descent(), rates)
    state = process.initialize()
    state = state._replace(process=state.process._replace(server=server))
    with pytest.raises(ValueError, match=f"has {found} learning rates"):
        process.next(state, [np.ones(2)])


def test_rates_at_a_greater_depth_stay():
    """As those of the aggregator in the state of MimeLite's client work."""
    process = ScheduledProcess(Descent(), rates)
    state = process.initialize()
    deep = [collections.OrderedDict(learning_rate=np.float32(7.0))]
    server = collections.OrderedDict(state.process.server, aggregator=deep)
    state = state._replace(process=state.process._replace(server=server))
    after = run(process, 2, state)[-1].state.process.server
    assert after["inner"]["learning_rate"] == np.float32(0.5)
    assert after["aggregator"] == deep
