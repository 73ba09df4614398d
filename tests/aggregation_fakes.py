"""Small deltas, their TFF types, and the worker-side set-up the aggregation tests share."""

import collections

import numpy as np
import tensorflow_federated as tff

SHAPES = ((3, 2), (4,), ())  # a matrix, a vector, a scalar
VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, shape) for shape in SHAPES])
WEIGHT_TYPE = tff.TensorType(np.float32)
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
