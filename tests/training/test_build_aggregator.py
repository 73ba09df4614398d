"""Every rule by name, protected: what composes, what is measured, what attackers gain."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.algorithms.fedmed.test_fedmed import weights as fedmed_weights
from tests.support.aggregation_fakes import (
    VALUE_TYPE,
    WEIGHT_TYPE,
    assert_close,
    deltas,
    one_round,
    plain,
)
from tests.support.examples import examples
from tff_keyboard.aggregators.fedmed.accumulator import fedmed_weight_type
from tff_keyboard.aggregators.registry.fedatt import FedAttConfig
from tff_keyboard.aggregators.registry.fedmed import FedMedConfig
from tff_keyboard.config.sections.aggregation_config import (
    AdaptiveClipping,
    AggregationConfig,
    FixedClipping,
    NoClipping,
    NormalClientNoise,
    UniformQuantization,
)
from tff_keyboard.parts.aggregator import AGGREGATORS
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptiveConfig
from tff_keyboard.training.aggregation import build_aggregator

UNPROTECTED = (("protection", NoClipping()),)
NORM_1 = 1.0 / np.sqrt(11)


@functools.cache
def process(name, options=(), clients=10):
    chosen = dict(options)
    if name == "private_fedatt":
        chosen |= {"privacy": GaussianConfig(clip_norm=0.5), "client_weighting": "uniform"}
    config = AggregationConfig(**({"rule": AGGREGATORS[name]()} | chosen))
    weight_type = fedmed_weight_type(3) if name == "fedmed" else WEIGHT_TYPE
    factory = build_aggregator(config, clients_per_round=clients, seed=1)
    return factory.create(VALUE_TYPE, weight_type)


def weigh(name, count):
    if name == "fedmed":
        return fedmed_weights([1] * count, range(count), np.zeros([count, 3]))
    return [1.0] * count


def length(value):
    return np.linalg.norm(np.concatenate([np.ravel(x) for x in value]))


QUICK = ("fedatt",)
every_rule = pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in AGGREGATORS],
)


@every_rule
@pytest.mark.parametrize("poison", [np.nan, np.inf, 1e30])
def test_a_few_broken_clients_never_reach_the_model(name, poison):
    values = deltas(0, 10, 0.1)
    values[3] = [np.full_like(x, poison) for x in values[3]]
    output = one_round(process(name), values, weigh(name, 10))
    assert all(np.all(np.isfinite(x)) for x in output.result)
    assert length(output.result) < 2.0
    refused = 1 if not np.isfinite(poison) else 0
    assert output.measurements["refused_non_finite"] == refused


@pytest.mark.slow
@every_rule
def test_empty_round_is_not_nan(name):
    assert all(np.all(np.isfinite(x)) for x in one_round(process(name), [], []).result)


@every_rule
def test_clients_that_agree_are_followed(name):
    value = [np.full_like(x, 0.05) for x in deltas(0, 1)[0]]
    output = one_round(process(name), [value] * 10, weigh(name, 10))
    assert_close(output.result, value)


@pytest.mark.slow
def test_fedatt_without_protection_is_taken_over_and_with_it_is_not():
    near = [np.full(np.shape(x), NORM_1, np.float32) for x in deltas(0, 1)[0]]
    far = [np.float32(-10) * x for x in near]
    values = [near] * 9 + [far]
    bare = one_round(process("fedatt", UNPROTECTED), values, [1.0] * 10)
    assert np.vdot(bare.result[0], near[0]) < 0  # nine honest clients outvoted by one
    safe = one_round(process("fedatt"), values, [1.0] * 10)
    assert np.vdot(safe.result[0], near[0]) > 0
    assert plain(safe.measurements)["inner/inner/inner/zeroing/clipped_count"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "compressed, name",
    [
        pytest.param(
            compressed, name, marks=() if compressed and name in QUICK else pytest.mark.slow
        )
        for compressed in (False, True)
        for name in ("mean", "fedatt", "fedmed", "median", "trimmed_mean")
    ],
)
def test_noise_compression_and_protection_compose_under_every_rule(name, compressed):
    options = (
        ("client_noise", NormalClientNoise(scale=1e-4)),
        *((("compression", UniformQuantization()),) if compressed else ()),
        ("protection", FixedClipping(clip_norm=100.0, zeroing=True)),
    )
    values = deltas(1, 4, 0.1)
    output = one_round(process(name, options), values, weigh(name, 4))
    expected = one_round(process(name, UNPROTECTED), values, weigh(name, 4)).result
    # Rounding moves a number of one client by at most a step: half a root mean square, 0.05 here.
    assert_close(output.result, expected, atol=0.05 if compressed else 3e-3)
    assert any(np.any(a != b) for a, b in zip(output.result, expected, strict=True))
    measured = plain(output.measurements)
    sizes = [v for k, v in measured.items() if k.endswith("uploaded_bytes")]
    assert sizes == [4 * 44] or (compressed and 4 * 32 < sizes[0] < 4 * 44)


@pytest.mark.slow
def test_topk_measures_the_bytes_before_compression():
    options = (("rule", FedMedConfig(top_fraction=0.5)), ("compression", UniformQuantization()))
    fedmed = process.__wrapped__("fedmed", options)  # a rule has no hash
    output = one_round(fedmed, deltas(0, 10), weigh("fedmed", 10))
    measured = plain(output.measurements)
    sent = next(value for name, value in measured.items() if name.endswith("/uploaded_bytes"))
    spared = next(v for name, v in measured.items() if name.endswith("/bytes_not_uploaded"))
    assert sent < 10 * 44
    assert spared == 5 * 44


@pytest.mark.slow
def test_a_loose_first_bound_is_gone_in_a_dozen_rounds():
    values = deltas(4, 10, 0.01)
    quantile = np.quantile([length(v) for v in values], 0.8)
    loose = AdaptiveClipping(clip_norm=10 * float(quantile))
    aggregation, state = process("mean", (("protection", loose),)), None
    for _ in range(13):
        output = one_round(aggregation, values, [1.0] * 10, state)
        state = output.state
    assert plain(output.measurements)["inner/inner/inner/zeroing/clipping_norm"] < 1.3 * quantile


@pytest.mark.slow
def test_a_private_mean_by_config():
    options = (("privacy", GaussianConfig(clip_norm=0.5)), ("client_weighting", "uniform"))
    values = deltas(2, 10)
    output = one_round(process("mean", options), values, [1.0, 100.0, *[5.0] * 8])
    expected = [
        sum(v[i] * min(1, 0.5 / length(v)) for v in values) / 10 for i in range(len(values[0]))
    ]
    assert_close(output.result, expected)
    assert plain(output.measurements)["inner/inner/dp_query_metrics/clip_norm"] == 0.5


@pytest.mark.slow
@examples(15)
@given(seed=st.integers(0, 2**31), log_scale=st.floats(-4, 3), bad=st.integers(0, 2))
def test_protected_fedatt_stays_within_the_clip_norm(seed, log_scale, bad):
    """Whatever two of ten clients send, the aggregate is no longer than the first bound."""
    values = deltas(seed, 10, 10.0**log_scale)
    for k in range(bad):
        values[k] = [np.full_like(x, 1e20) for x in values[k]]
    output = one_round(process("fedatt"), values, [1.0] * 10)
    # Layers take their own convex combinations, so each is within the bound, three together root 3.
    assert length(output.result) <= np.sqrt(3) * (1 + 1e-5)


def test_variable_names_reach_the_layers():
    config = AggregationConfig(rule=FedAttConfig(layer_groups={"all": ["table", "bias", "scale"]}))
    factory = build_aggregator(
        config, clients_per_round=2, seed=0, variable_names=["table", "bias", "scale"]
    )
    output = one_round(factory.create(VALUE_TYPE, WEIGHT_TYPE), deltas(0, 2), [1.0, 1.0])
    assert any("attention/all/entropy" in name for name in plain(output.measurements))


def test_options_that_do_not_fit_the_cohort_are_refused():
    config = AggregationConfig(
        privacy=GaussianAdaptiveConfig(noise_multiplier=2.0), client_weighting="uniform"
    )
    with pytest.raises(ValueError, match=r"Raise `clipped_count_noise`"):
        build_aggregator(config, clients_per_round=10, seed=0)
    build_aggregator(config, clients_per_round=100, seed=0)
