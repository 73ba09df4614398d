"""What holds for every rule and every wrapper: one battery over all that a config can ask for.

A rule, a mechanism or a wrapper is tested here by being registered (`battery_cases.py`); what it
computes is tested beside it, against NumPy. The properties are the library's, for anybody's rule.
"""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk
from tests.aggregators.battery_cases import CASES
from tff_keyboard.aggregators.properties import PROPERTIES, AggregatorUnderTest

# A rule and a mechanism; the others are slow tests.
QUICK = ("rule fedatt", "privacy gaussian_adaptive, noisy")


def test_quick_cases_exist():
    assert set(QUICK) <= CASES.keys()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)
def test_every_property(case):
    for check in PROPERTIES:
        check(case)


class Mean(tff.aggregators.WeightedAggregationFactory):
    """A mean, or what mistakes make of it: of a client's weight, of (total, sum of weights)."""

    def __init__(self, counts=lambda weight: weight, divide=tf.math.divide_no_nan):
        self._counts, self._divide = counts, divide

    def create(self, value_type, weight_type):
        @tff.tensorflow.computation(value_type, weight_type)
        def weighted(value, weight):
            counted = self._counts(weight)
            return tf.nest.map_structure(lambda x: counted * x, value), counted

        @tff.tensorflow.computation(value_type, weight_type)
        def divided(total, weights):
            return tf.nest.map_structure(lambda x: self._divide(x, weights), total)

        @tff.federated_computation
        def init_fn():
            return tff.federated_value((), tff.SERVER)

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            total = tff.federated_sum(tff.federated_map(weighted, (value, weight)))
            measurements = tff.federated_value(np.int32(1), tff.SERVER)
            return tff.templates.MeasuredProcessOutput(
                state, tff.federated_map(divided, total), measurements
            )

        return tff.templates.AggregationProcess(init_fn, next_fn)


GUARD = tk.aggregators.UpdateGuard
MISTAKES = {
    "none": (GUARD(Mean()), set()),
    "a factor and no guard": (
        Mean(divide=lambda total, weights: 2 * tf.math.divide_no_nan(total, weights)),
        {
            "the result of one client is its update",
            "the result of equal updates is that update",
            "a client that sends nan is ignored",
        },
    ),
    "weights that do not count": (
        GUARD(Mean(counts=tf.ones_like)),
        {"a client with weight zero is ignored"},
    ),
    "division by zero": (
        GUARD(Mean(divide=tf.math.divide)),
        {"a round without clients returns zeros"},
    ),
    "chance": (
        GUARD(Mean(counts=lambda weight: weight * tf.random.uniform([], 0.5))),
        {
            "the order of clients does not matter",
            "a client that sends nan is ignored",
            "a client with weight zero is ignored",
            "two workers compute the same result",
            "a resumed process repeats its results",
        },
    ),
}


@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(name, marks=() if name == "a factor and no guard" else pytest.mark.slow)
        for name in MISTAKES
    ],
)
def test_mistakes_are_reported(mistake):
    rule, expected = MISTAKES[mistake]
    found = tk.aggregators.check_rule(rule)
    assert len(found) == len(PROPERTIES)
    assert {name for name, problem in found.items() if problem} == expected
    if mistake == "a factor and no guard":
        sent = np.max(np.abs(AggregatorUnderTest().cohort(1)[0][0][0]))
        problem = f"tensor 0 of the result is off by {sent:.2g}"  # as it came twice
        assert found["the result of one client is its update"] == problem
