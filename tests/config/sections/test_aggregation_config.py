"""Options out of range and unsafe combinations are rejected, with the reason and the way out."""

import pytest

from tff_keyboard.aggregators.registry.fedatt import FedAttConfig
from tff_keyboard.aggregators.registry.fedmed import FedMedConfig
from tff_keyboard.aggregators.registry.mean import MeanConfig
from tff_keyboard.aggregators.registry.median import MedianConfig
from tff_keyboard.aggregators.registry.private_fedatt import PrivateFedAttConfig
from tff_keyboard.aggregators.registry.trimmed_mean import TrimmedMeanConfig
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
from tff_keyboard.privacy.registry.tree import TreeConfig

NOISE = {"noise_multiplier": 1.0}
PRIVATE = {"privacy": GaussianConfig(**NOISE), "client_weighting": "uniform"}


def test_averaging_rules_are_protected_by_default():
    for rule in (MeanConfig(), FedAttConfig(), FedMedConfig()):
        assert AggregationConfig(rule=rule).resolved_protection == AdaptiveClipping()
        assert AdaptiveClipping().zeroing
    for rule in (MedianConfig(), TrimmedMeanConfig()):
        assert AggregationConfig(rule=rule).resolved_protection == NoClipping()


def test_privacy_turns_unaccounted_protection_off():
    assert AggregationConfig(**PRIVATE).resolved_protection == NoClipping()
    assert not NoClipping().zeroing


@pytest.mark.parametrize(
    "build, words",
    [
        (
            lambda: FedAttConfig(norm="3"),
            "rule.norm` must be one of '1', '2', 'inf', 'spectral', got '3'",
        ),
        (
            lambda: FedAttConfig(temperature=float("inf")),
            "aggregation.rule.temperature` must be finite",
        ),
        (
            lambda: FedMedConfig(top_fraction=0.0),
            r"`aggregation.rule.top_fraction` must be in \(0, 1\]",
        ),
        (
            lambda: TrimmedMeanConfig(trim_fraction=0.5),
            r"rule.trim_fraction` must be in \[0, 0.5\)",
        ),
        (lambda: PrivateFedAttConfig(denominator_floor=0.0), "rule.denominator_floor` must be > 0"),
        (lambda: PrivateFedAttConfig(attention_bound=-1.0), "rule.attention_bound` must be >= 0"),
        (
            lambda: FedAttConfig(layer_groups={"a": []}),
            "`aggregation.rule.layer_groups.a` is empty",
        ),
        (lambda: FedMedConfig(layer_groups={"a": ["x"], "b": ["x"]}), "belongs to one group"),
        (lambda: AdaptiveClipping(quantile=1.0), r"protection.quantile` must be in \(0, 1\)"),
        (lambda: FixedClipping(clip_norm=-1.0), "protection.clip_norm` must be > 0, got -1.0"),
        (lambda: GaussianConfig(clip_norm=0.0), "`aggregation.privacy.clip_norm` must be > 0"),
        (
            lambda: GaussianConfig(noise_multiplier=-1.0),
            "privacy.noise_multiplier` must be 0, or in 1e-6",
        ),
        (lambda: GaussianConfig(delta=0.0), r"`aggregation.privacy.delta` must be in \(0, 1\)"),
        (
            lambda: GaussianAdaptiveConfig(target_unclipped_quantile=1.0),
            "target_unclipped_quantile`",
        ),
        (lambda: UniformQuantization(bits=1), "compression.bits` must be in 2..4, got 1"),
        (lambda: UniformQuantization(bits=5), "compression.bits` must be in 2..4, got 5"),
        (lambda: NormalClientNoise(scale=0.0), "client_noise.scale` must be > 0"),
        (lambda: AggregationConfig(client_weighting="all"), "must be one of 'tokens', 'examples'"),
    ],
)
def test_out_of_range_options_are_named(build, words):
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize(
    "build, reason",
    [
        (lambda: AggregationConfig(privacy=GaussianConfig()), "assumes equal weights"),
        (
            lambda: AggregationConfig(rule=FedAttConfig(), **PRIVATE),
            "depend on all clients at once",
        ),
        (
            lambda: AggregationConfig(rule=FedMedConfig(), **PRIVATE),
            "depend on all clients at once",
        ),
        (lambda: AggregationConfig(rule=MedianConfig(), **PRIVATE), "have no clipped sensitivity"),
        (lambda: AggregationConfig(rule=TrimmedMeanConfig(), **PRIVATE), "order statistics"),
        (lambda: AggregationConfig(rule=PrivateFedAttConfig()), "the sum of each round"),
        (
            lambda: AggregationConfig(
                rule=PrivateFedAttConfig(), **PRIVATE | {"privacy": TreeConfig()}
            ),
            "the sum of each round",
        ),
        (
            lambda: AggregationConfig(protection=NoClipping(zeroing=True), **PRIVATE),
            "estimated without noise",
        ),
        (
            lambda: AggregationConfig(protection=AdaptiveClipping(zeroing=False), **PRIVATE),
            "does not cover a second bound",
        ),
        (
            lambda: AggregationConfig(protection=FixedClipping(), **PRIVATE),
            "does not cover a second bound",
        ),
        (
            lambda: GaussianAdaptiveConfig(clipped_count_noise=0.0, **NOISE),
            "released without noise",
        ),
    ],
)
def test_unsafe_combinations_are_refused_with_the_reason(build, reason):
    with pytest.raises(ValueError, match=reason) as error:
        build()
    assert "\n" not in str(error.value)
    assert "`aggregation." in str(error.value)


@pytest.mark.parametrize("privacy", [GaussianConfig, GaussianAdaptiveConfig, TreeConfig])
def test_every_mechanism_is_allowed_with_mean_and_compression(privacy):
    config = AggregationConfig(
        privacy=privacy(**NOISE), client_weighting="uniform", compression=UniformQuantization()
    )
    assert config.is_private


def test_private_fedatt_is_private():
    assert AggregationConfig(rule=PrivateFedAttConfig(), **PRIVATE).is_private
    assert not AggregationConfig().is_private


def test_rules_maps_names_to_classes():
    assert {name: cls().type for name, cls in AGGREGATORS.items()} == {
        name: name for name in AGGREGATORS
    }
