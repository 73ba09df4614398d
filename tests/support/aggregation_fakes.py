"""Small deltas, their TFF types, and the worker-side set-up the aggregation tests share."""

import collections

import numpy as np
import tensorflow_federated as tff

from tff_keyboard.aggregators.properties import SHAPES, VALUE_TYPE, WEIGHT_TYPE

__all__ = ["SHAPES", "VALUE_TYPE", "WEIGHT_TYPE"]

LAYERS = [(0,), (1,), (2,)]
GROUPS = {"first": ["0", "2"], "second": ["1"]}


def deltas(seed, clients, scale=1.0):
    """`clients` random deltas of `VALUE_TYPE`."""
    rng = np.random.default_rng(seed)
    return [
        [(scale * rng.normal(size=shape)).astype(np.float32) for shape in SHAPES]
        for _ in range(clients)
    ]


def in_float64(values):
    return [[np.asarray(x, np.float64) for x in value] for value in values]


def softmax(scores):
    scores = np.asarray(scores, np.float64)
    exponentials = np.exp(scores - scores.max())
    return exponentials / exponentials.sum()


def vector(value, positions):
    """The tensors at `positions`, flattened in order."""
    return np.concatenate([np.ravel(np.asarray(value[i], np.float64)) for i in positions])


def one_round(process, values, weights, state=None):
    """`process.next` from `state`, or from the initial one."""
    return process.next(process.initialize() if state is None else state, values, weights)


def assert_close(result, expected, rtol=1e-5, atol=1e-6):
    assert len(result) == len(expected)
    for got, wanted in zip(result, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol)


def plain(measurements):
    """Nested measurements as {"a/b": number}."""
    flat = {}

    def visit(prefix, item):
        if isinstance(item, collections.abc.Mapping):
            for key, child in item.items():
                visit(f"{prefix}/{key}" if prefix else key, child)
        else:
            flat[prefix] = item

    visit("", measurements)
    return flat


class Summed(tff.aggregators.WeightedAggregationFactory):
    """Shows what arrives: the sum of values as the result, that of weights as measurements."""

    def create(self, value_type, weight_type):
        @tff.federated_computation
        def init_fn():
            return tff.federated_value((), tff.SERVER)

        @tff.federated_computation(
            init_fn.type_signature.result,
            tff.FederatedType(value_type, tff.CLIENTS),
            tff.FederatedType(weight_type, tff.CLIENTS),
        )
        def next_fn(state, value, weight):
            sums = tff.federated_sum(value), tff.federated_sum(weight)
            return tff.templates.MeasuredProcessOutput(state, *sums)

        return tff.templates.AggregationProcess(init_fn, next_fn)
