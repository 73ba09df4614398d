"""Options out of range and unsafe combinations are refused, with the reason and the way out."""

import dataclasses

import pytest

from tff_keyboard.config.aggregation_config import AggregationConfig

PRIVATE = {"dp": "gaussian", "client_weighting": "uniform", "noise_multiplier": 1.0}


def test_defaults_are_valid_and_protect_averaging_rules():
    for name in ("mean", "fedatt", "fedmed"):
        config = AggregationConfig(name=name)
        assert config.resolved_zeroing
        assert config.resolved_clipping == "adaptive"
    for name in ("private_fedatt", "median", "trimmed_mean"):
        config = AggregationConfig(name=name)
        assert not config.resolved_zeroing
        assert config.resolved_clipping == "off"


def test_privacy_turns_unaccounted_protection_off():
    config = AggregationConfig(**PRIVATE)
    assert not config.resolved_zeroing
    assert config.resolved_clipping == "off"


@pytest.mark.parametrize(
    "options, words",
    [
        ({"name": "fedprox"}, "`aggregation.name` must be one of 'mean', 'fedatt'"),
        ({"norm": "3"}, "`aggregation.norm` must be one of '1', '2', 'inf', 'spectral', got '3'"),
        ({"temperature": 0.0}, "`aggregation.temperature` must be > 0, got 0.0"),
        ({"temperature": float("nan")}, "`aggregation.temperature`"),
        ({"top_fraction": 0.0}, r"`aggregation.top_fraction` must be in \(0, 1\]"),
        ({"trim_fraction": 0.5}, r"`aggregation.trim_fraction` must be in \[0, 0.5\)"),
        ({"clipping_quantile": 1.0}, r"`aggregation.clipping_quantile` must be in \(0, 1\)"),
        ({"delta": 0.0}, r"`aggregation.delta` must be in \(0, 1\)"),
        ({"compression_bits": 0}, "`aggregation.compression_bits` must be in 1..16, got 0"),
        ({"clip_norm": -1.0}, "`aggregation.clip_norm` must be > 0, got -1.0"),
        ({"local_loss": "before"}, "must be one of 'during_training', 'after_training'"),
        ({"zeroing": "maybe"}, "`aggregation.zeroing` must be one of 'auto', 'on', 'off'"),
        ({"layer_groups": {"a": []}}, "`aggregation.layer_groups.a` is empty"),
        ({"layer_groups": {"a": ["x"], "b": ["x"]}}, "each variable belongs to one group"),
    ],
)
def test_out_of_range_options_are_named(options, words):
    with pytest.raises(ValueError, match=words):
        AggregationConfig(**options)


@pytest.mark.parametrize(
    "options, reason",
    [
        (PRIVATE | {"client_weighting": "tokens"}, "assumes equal weights"),
        (PRIVATE | {"name": "fedatt"}, "weights depend on all clients at once"),
        (PRIVATE | {"name": "fedmed"}, "weights depend on all clients at once"),
        (PRIVATE | {"name": "median"}, "order statistics have no clipped sensitivity"),
        (PRIVATE | {"name": "trimmed_mean"}, "order statistics"),
        (PRIVATE | {"name": "private_fedatt", "dp": "tree"}, "each round's own sum"),
        (PRIVATE | {"zeroing": "on"}, "estimated without noise"),
        (PRIVATE | {"clipping": "adaptive"}, "noiseless bound is not covered"),
        ({"noise_multiplier": 1.0}, "needs a mechanism"),
        (
            PRIVATE | {"dp": "gaussian_adaptive", "clipped_count_noise": 0.0},
            "would be released without noise",
        ),
        (PRIVATE | {"dp": "tree_adaptive"}, "only change when the tree starts again"),
        ({"name": "fedatt", "compression": "tff_quantization"}, "Use 'uniform_quantization'"),
        (PRIVATE | {"compression": "tff_quantization"}, "encodes inside the sum"),
    ],
)
def test_unsafe_combinations_are_refused_with_the_reason(options, reason):
    with pytest.raises(ValueError, match=reason) as error:
        AggregationConfig(**options)
    assert "\n" not in str(error.value)
    assert "`aggregation." in str(error.value)


@pytest.mark.parametrize(
    "options",
    [
        PRIVATE,
        PRIVATE | {"dp": "gaussian_adaptive"},
        PRIVATE | {"dp": "tree"},
        PRIVATE | {"dp": "tree_adaptive", "tree_restart_rounds": 8},
        PRIVATE | {"name": "private_fedatt"},
        PRIVATE | {"compression": "uniform_quantization"},
    ],
)
def test_safe_combinations_are_not(options):
    AggregationConfig(**options)


def test_every_option_is_documented():
    for field in dataclasses.fields(AggregationConfig):
        assert f"      {field.name}: " in AggregationConfig.__doc__
