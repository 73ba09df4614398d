"""FedAtt against Algorithm 3 of the paper, in NumPy and float64."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aggregation_fakes import (
    GROUPS,
    LAYERS,
    VALUE_TYPE,
    WEIGHT_TYPE,
    assert_close,
    deltas,
    in_float64,
    one_round,
    plain,
    softmax,
    vector,
)
from tests.support.examples import examples
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory
from tff_keyboard.aggregators.registry.fedatt import FedAttConfig


def numpy_norm(value, positions, norm):
    if norm == "spectral":
        parts = [np.asarray(value[i], np.float64) for i in positions]
        return np.sqrt(sum(np.linalg.norm(np.atleast_1d(part), 2) ** 2 for part in parts))
    return np.linalg.norm(vector(value, positions), {"1": 1, "2": 2, "inf": np.inf}[norm])


def numpy_fedatt(theta, thetas, epsilon, norm="2", layers=LAYERS, temperature=1.0):
    """Ji et al. 2019, Algorithm 3: the new server weights and alpha [layers, clients]."""
    result = [tensor.copy() for tensor in theta]
    attention = []
    for positions in layers:
        moved = [[t - t_k for t, t_k in zip(theta, theta_k, strict=True)] for theta_k in thetas]
        alpha = softmax([numpy_norm(m, positions, norm) / temperature for m in moved])
        attention.append(alpha)
        for i in positions:
            result[i] = theta[i] - epsilon * sum(
                a * (theta[i] - theta_k[i]) for a, theta_k in zip(alpha, thetas, strict=True)
            )
    return result, np.array(attention)


@functools.cache
def process(norm="2", temperature=1.0, grouped=False):
    groups = GROUPS if grouped else {}
    factory = FedAttFactory(norm, temperature=temperature, layer_groups=groups)
    return factory.create(VALUE_TYPE, WEIGHT_TYPE)


@pytest.mark.parametrize(
    "norm, grouped",
    [
        ("spectral", False),
        ("2", True),
        *(pytest.param(norm, True, marks=pytest.mark.slow) for norm in ("1", "inf", "spectral")),
        *(pytest.param(norm, False, marks=pytest.mark.slow) for norm in ("1", "2", "inf")),
    ],
)
def test_is_algorithm_3(norm, grouped):
    epsilon = 0.7
    theta = in_float64(deltas(0, 1))[0]
    values = deltas(1, 5)  # theta - theta_k
    thetas = [[t - d for t, d in zip(theta, v, strict=True)] for v in in_float64(values)]
    layers = [(0, 2), (1,)] if grouped else LAYERS
    expected, _ = numpy_fedatt(theta, thetas, epsilon, norm, layers)

    output = one_round(process(norm, 1.0, grouped), values, [1.0, 7.0, 2.0, 30.0, 1.0])
    # TFF's server applies theta - learning_rate * (theta - theta_k aggregated).
    updated = [
        t - epsilon * np.asarray(r, np.float64) for t, r in zip(theta, output.result, strict=True)
    ]
    assert_close(updated, expected)


def test_measures_the_attention():
    values = deltas(2, 6, scale=2.0)
    output = one_round(process(temperature=0.5), values, [1.0] * 6)
    zeros = [np.zeros_like(x) for x in values[0]]
    thetas = [[-x for x in v] for v in in_float64(values)]
    _, attention = numpy_fedatt(in_float64([zeros])[0], thetas, 1.0, temperature=0.5)
    measured = plain(output.measurements)
    assert measured["clients"] == 6
    for i, alpha in enumerate(attention):
        entropy = -np.sum(alpha * np.log(alpha))
        name = f"attention/layer_{i}"
        np.testing.assert_allclose(measured[f"{name}/entropy"], entropy, rtol=1e-5)
        np.testing.assert_allclose(
            measured[f"{name}/effective_clients"], np.exp(entropy), rtol=1e-5
        )
        np.testing.assert_allclose(measured[f"{name}/maximum_weight"], alpha.max(), rtol=1e-5)


@examples(40)
@given(
    clients=st.integers(1, 7),
    log_scale=st.floats(-6, 4),
    seed=st.integers(0, 2**31),
    mask=st.integers(0, 127),
)
def test_any_scale_and_mask(clients, log_scale, seed, mask):
    values = deltas(seed, clients, 10.0**log_scale)
    weights = [float(mask >> k & 1) for k in range(clients)]
    output = one_round(process(), values, weights)
    kept = [v for v, w in zip(in_float64(values), weights, strict=True) if w]
    assert output.measurements["clients"] == len(kept)
    if not kept:
        assert all(not np.any(x) for x in output.result)
        return
    expected = []
    for i in range(len(values[0])):
        alpha = softmax([np.linalg.norm(np.ravel(v[i])) for v in kept])
        expected.append(sum(a * v[i] for a, v in zip(alpha, kept, strict=True)))
    assert_close(output.result, expected, rtol=2e-5, atol=1e-5 * 10.0**log_scale)


@pytest.mark.parametrize("size", [1e4, 1e19, 1e30])
def test_huge_norms_do_not_overflow(size):
    values = deltas(3, 3)
    values[1] = [np.full_like(x, size) for x in values[1]]
    output = one_round(process(), values, [1.0] * 3)
    assert_close(output.result, values[1])
    assert output.measurements["attention"]["layer_0"]["maximum_weight"] == 1.0


def test_one_client_identical_clients_and_zero_deltas():
    value = deltas(4, 1)
    assert_close(one_round(process(), value, [5.0]).result, value[0])
    assert_close(one_round(process(), value * 4, [1.0] * 4).result, value[0])
    nothing = [[np.zeros_like(x) for x in value[0]]] * 3
    output = one_round(process(), nothing, [1.0] * 3)
    assert all(not np.any(x) for x in output.result)
    np.testing.assert_allclose(
        output.measurements["attention"]["layer_0"]["effective_clients"], 3.0, rtol=1e-6
    )


def test_empty_round_gives_zeros_and_no_nan():
    for values, weights in [([], []), (deltas(5, 2), [0.0, 0.0])]:
        output = one_round(process(), values, weights)
        assert all(not np.any(x) for x in output.result)
        assert all(value == 0 for value in plain(output.measurements).values())


def test_one_far_client_takes_nearly_everything():
    """Why clipping before attention is the default."""
    near, far = [[np.zeros_like(x) for x in deltas(0, 1)[0]] for _ in range(2)]
    near[1][0], far[1][0] = 1.0, 10.0
    output = one_round(process(), [near] * 9 + [far], [1.0] * 10)
    weight = output.measurements["attention"]["layer_1"]["maximum_weight"]
    np.testing.assert_allclose(weight, 1 / (1 + 9 * np.exp(-9)), rtol=1e-6)
    assert weight > 0.998


def test_norm_may_be_a_number_and_step_is_epsilon():
    values, weights = deltas(8, 4), [1.0] * 4
    factory = FedAttFactory("1", temperature=0.5, layer_groups=GROUPS)
    expected = one_round(factory.create(VALUE_TYPE, WEIGHT_TYPE), values, weights)
    changed = FedAttFactory(1, temperature=0.5, layer_groups=GROUPS, step=0.25)
    output = one_round(changed.create(VALUE_TYPE, WEIGHT_TYPE), values, weights)
    assert_close(output.result, [0.25 * x for x in in_float64([expected.result])[0]])
    assert plain(output.measurements) == plain(expected.measurements)


@pytest.mark.parametrize(
    "keywords, words",
    [
        ({"norm": 3}, "^`norm` must be one of '1', '2', 'inf', 'spectral', got '3'"),
        ({"norm": float("nan")}, "^`norm` must be one of .* got 'nan'"),
        ({"temperature": 0.0}, "^`temperature` must be > 0"),
        ({"step": 0.0}, "^`step` must be > 0, got 0.0"),
    ],
)
def test_a_keyword_out_of_range_is_named_as_it_was_written(keywords, words):
    with pytest.raises(ValueError, match=words):
        FedAttFactory(**keywords)


def test_a_hot_temperature_is_the_unweighted_mean():
    values = deltas(6, 4)
    output = one_round(process(temperature=1e7), values, [1.0, 9.0, 2.0, 3.0])
    expected = [np.mean([v[i] for v in in_float64(values)], axis=0) for i in range(3)]
    assert_close(output.result, expected)


def test_the_order_of_clients_does_not_matter():
    values = deltas(7, 12)
    forwards = one_round(process(), values, [1.0] * 12).result
    backwards = one_round(process(), values[::-1], [1.0] * 12).result
    assert_close(forwards, backwards, atol=1e-6)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"norm": "3"}, "`aggregation.rule.norm` must be one of"),
        ({"temperature": 0.0}, "`aggregation.rule.temperature` must be > 0, got 0.0"),
        ({"temperature": float("nan")}, "`aggregation.rule.temperature`"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        FedAttConfig(**arguments)


@pytest.mark.parametrize(
    "groups, words",
    [
        ({"a": ["0", "1"]}, "leaves out layer_2"),
        ({"a": ["0", "1"], "b": ["1", "2"]}, "each variable belongs to one group"),
        ({"a": ["0", "1", "2", "3"]}, "which is not a variable"),
        ({"a": ["0", "1", "2"], "b": []}, "is empty"),
    ],
)
def test_groups_must_be_a_partition(groups, words):
    with pytest.raises(ValueError, match=words):
        FedAttFactory(layer_groups=groups).create(VALUE_TYPE, WEIGHT_TYPE)


def test_integers_are_refused():
    with pytest.raises(TypeError, match="floating-point"):
        FedAttFactory().create(np.int32, WEIGHT_TYPE)
