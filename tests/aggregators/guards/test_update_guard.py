"""Nothing broken reaches the inner aggregation, and everything broken is counted."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aggregation_fakes import (
    VALUE_TYPE,
    WEIGHT_TYPE,
    Summed,
    assert_close,
    deltas,
    in_float64,
    one_round,
)
from tests.support.examples import examples
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory
from tff_keyboard.aggregators.guards.update_guard import UpdateGuardFactory


@pytest.fixture(scope="module")
def guarded_mean():
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    return UpdateGuardFactory(mean).create(VALUE_TYPE, WEIGHT_TYPE)


def numpy_mean(values, weights):
    total = sum(weights)
    return [
        sum(w * v[i] for v, w in zip(in_float64(values), weights, strict=True)) / total
        for i in range(len(values[0]))
    ]


@examples(30)
@given(
    broken=st.sets(st.integers(0, 4)),
    poison=st.sampled_from([np.nan, np.inf, -np.inf]),
    tensor=st.integers(0, 2),
    in_weight=st.booleans(),
)
def test_broken_clients_are_left_out_of_the_mean(guarded_mean, broken, poison, tensor, in_weight):
    values, weights = deltas(0, 5), [1.0, 2.0, 3.0, 4.0, 5.0]
    good = [(v, w) for k, (v, w) in enumerate(zip(values, weights, strict=True)) if k not in broken]
    for k in broken:
        if in_weight:
            weights[k] = poison
        else:
            values[k][tensor] = np.array(values[k][tensor])
            values[k][tensor].flat[-1] = poison
    output = one_round(guarded_mean, values, weights)
    assert output.measurements["refused_non_finite"] == len(broken)
    if good:
        assert_close(output.result, numpy_mean(*zip(*good, strict=True)))
    else:
        assert all(not np.any(x) for x in output.result)


def test_negative_weights_are_refused(guarded_mean):
    values = deltas(1, 2)
    output = one_round(guarded_mean, values, [1.0, -1.0])
    assert output.measurements["refused_non_finite"] == 1
    assert_close(output.result, values[0])


def test_refused_clients_are_not_in_the_softmax():
    process = UpdateGuardFactory(FedAttFactory()).create(VALUE_TYPE, WEIGHT_TYPE)
    values = deltas(2, 3)
    bare = FedAttFactory().create(VALUE_TYPE, WEIGHT_TYPE)
    expected = one_round(bare, values[:2], [1.0, 1.0]).result
    values[2][0][0, 0] = np.nan
    output = one_round(process, values, [1.0] * 3)
    assert_close(output.result, expected)
    assert output.measurements["inner"]["clients"] == 2


def test_a_structured_weight_becomes_all_zero():
    weight_type = tff.to_type(collections.OrderedDict(n=np.float32, loss=np.float32))

    process = UpdateGuardFactory(Summed()).create(VALUE_TYPE, weight_type)
    weights = [
        collections.OrderedDict(n=np.float32(3), loss=np.float32(np.nan)),
        collections.OrderedDict(n=np.float32(5), loss=np.float32(2)),
    ]
    output = one_round(process, deltas(3, 2), weights)
    assert output.measurements["inner"] == {"n": 5.0, "loss": 2.0}


def test_wrong_shapes_stop_a_closed_round(guarded_mean):
    value = deltas(0, 1)[0]
    value[0] = value[0].T
    with pytest.raises(Exception, match=r"(?i)shape|type|compatible"):
        one_round(guarded_mean, [value], [1.0])
