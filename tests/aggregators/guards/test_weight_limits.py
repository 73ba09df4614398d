"""A client may claim any weight: what the server makes of it, rule by rule."""

import collections
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support.aggregation_fakes import VALUE_TYPE, WEIGHT_TYPE, assert_close, deltas, one_round
from tff_keyboard.aggregators.fedmed.accumulator import fedmed_weight_type, limit_fedmed_weight
from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.aggregators.guards.update_guard import UpdateGuardFactory, zero_or_one

LIE = 1e6
HONEST = [200.0] * 9


def flat(value):
    return np.concatenate([np.ravel(x) for x in value]).astype(np.float64)


def cosine(a, b):
    a, b = flat(a), flat(b)
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def at_most(bound):
    """min(w, bound): another limit than those of a config."""
    return lambda weight: tf.minimum(weight, tf.cast(bound, weight.dtype))


def guarded_mean(limit):
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    return UpdateGuardFactory(mean, limit=limit).create(VALUE_TYPE, WEIGHT_TYPE)


def one_liar():
    """Nine clients that agree, and one that sends the opposite."""
    value, noise = deltas(0, 1)[0], deltas(1, 9, 0.1)
    honest = [[x + n for x, n in zip(value, ns, strict=True)] for ns in noise]
    return [*honest, [-x for x in value]]


def test_a_lie_about_the_weight_is_the_mean_where_nothing_limits_it():
    values = one_liar()
    output = one_round(guarded_mean(None), values, [*HONEST, 200 * LIE])
    assert cosine(output.result, values[-1]) > 0.9999
    assert output.measurements["impossible_claims"] == 0


def test_false_claim_is_capped_at_the_limit_of_a_client():
    values = one_liar()
    output = one_round(guarded_mean(at_most(1280.0)), values, [*HONEST, 200 * LIE])
    weights = np.array([*HONEST, 1280.0])
    expected = [
        np.tensordot(weights / weights.sum(), np.array([v[i] for v in values], np.float64), 1)
        for i in range(3)
    ]
    assert_close(output.result, expected)
    assert cosine(output.result, values[0]) > 0
    assert output.measurements["impossible_claims"] == 1
    assert output.measurements["refused_non_finite"] == 0


def test_under_uniform_weights_a_lie_changes_nothing():
    values = one_liar()
    process = guarded_mean(zero_or_one)
    lied = one_round(process, values, [*[1.0] * 8, 0.0, LIE])
    honest = one_round(process, values, [*[1.0] * 8, 0.0, 1.0])
    for a, b in zip(lied.result, honest.result, strict=True):
        np.testing.assert_array_equal(a, b)
    assert lied.measurements["impossible_claims"] == 1
    assert honest.measurements["impossible_claims"] == 0


@pytest.mark.parametrize("poison", [np.nan, np.inf, -1.0])
def test_refused_clients_are_not_counted_as_capped(poison):
    output = one_round(guarded_mean(at_most(300.0)), deltas(0, 2), [poison, 200.0])
    assert output.measurements["refused_non_finite"] == 1
    assert output.measurements["impossible_claims"] == 0


def fedmed_weight(examples, loss, divergence):
    return collections.OrderedDict(
        num_examples=np.float32(examples),
        loss=np.float32(loss),
        divergence=np.full(3, divergence, np.float32),
    )


def test_fedmed_believes_neither_examples_nor_losses_nor_divergences_beyond_their_bounds():
    limit = limit_fedmed_weight(at_most(1280.0), vocabulary_size=100)
    limited = limit(tf.nest.map_structure(tf.constant, fedmed_weight(LIE, 1e30, 50.0)))
    assert limited["num_examples"] == 1280
    np.testing.assert_allclose(limited["loss"], 2 * math.log(100), rtol=1e-6)
    np.testing.assert_allclose(limited["divergence"], np.full(3, math.log(2)), rtol=1e-6)
    honest = fedmed_weight(640, math.log(100), 0.3)
    for a, b in zip(
        tf.nest.flatten(limit(tf.nest.map_structure(tf.constant, honest))),
        tf.nest.flatten(honest),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_a_liar_does_not_decide_fedmeds_averaging_branch():
    """The audit's attack: no loss gets it into topK, the weight into the mean."""
    values = one_liar()
    described = [fedmed_weight(200, 4.0, 0.1)] * 9
    lie = fedmed_weight(200 * LIE, 0.0, 0.1)
    cosines = {}
    for name, limit in {
        "none": None,
        "bounds": limit_fedmed_weight(at_most(400.0), 100),
    }.items():
        factory = FedMedFactory(top_fraction=0.8, mediation_threshold=1e6, max_clients=10)
        process = UpdateGuardFactory(factory, limit=limit).create(VALUE_TYPE, fedmed_weight_type(3))
        first = one_round(process, values, [*described, fedmed_weight(200, 4.0, 0.1)])
        second = one_round(process, values, [*described, lie], first.state)
        assert second.measurements["inner"]["adaptive"] == 0
        cosines[name] = cosine(second.result, values[-1])
        capped = second.measurements["impossible_claims"]
        assert capped == (0 if limit is None else 1)
    assert cosines["none"] > 0.9999
    assert cosines["bounds"] < 0
