"""Configs that secure sums support, and rejected ones."""

import numpy as np
import pytest

from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.config.sections import privacy_config
from tff_keyboard.parts.aggregator import AGGREGATORS
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard_fleet.on_devices.secure_grid import SecureGrid, secure_grid
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid, to_grid

NOISE = {"clip_norm": 0.5, "noise_multiplier": 0.25}
PLAIN = {"client_weighting": "uniform", "protection": tables.FixedClipping(clip_norm=0.5)}
PRIVATE = {
    "client_weighting": "uniform",
    "privacy": privacy_config.GaussianConfig(distribution="discrete", **NOISE),
}


def grid(clients=100, **fields):
    return secure_grid(tables.AggregationConfig(**fields), clients_per_round=clients)


def test_the_grid_of_a_mean_and_of_a_private_mean():
    assert grid(**PLAIN) == SecureGrid(0.5, 0.5 / 2**20, 32)
    assert grid(**PRIVATE) == SecureGrid(0.5, 0.125 / 2**20, 32)
    assert grid(clients=2000, **PRIVATE).bits == 64


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"rule": AGGREGATORS["fedatt"]()}, "'fedatt' cannot be used with secure sums"),
        ({"rule": AGGREGATORS["fedmed"]()}, "'fedmed' cannot be used with secure sums"),
        ({"rule": AGGREGATORS["median"]()}, "'median' cannot be used with secure sums"),
        ({"rule": AGGREGATORS["trimmed_mean"]()}, "'trimmed_mean' cannot"),
        ({"rule": AGGREGATORS["bounded_trimmed_mean"]()}, "'bounded_trimmed_mean' cannot"),
        (
            {
                "rule": AGGREGATORS["private_fedatt"](),
                "privacy": privacy_config.GaussianConfig(**NOISE),
            },
            "'private_fedatt' cannot be used with secure sums",
        ),
        (
            {"privacy": privacy_config.GaussianConfig(**NOISE)},
            "privacy.distribution` = 'continuous'",
        ),
        ({"privacy": privacy_config.TreeConfig(**NOISE)}, "privacy.type` = 'tree' cannot"),
        ({"client_weighting": "tokens"}, "which needs the claim of each client. Use 'uniform'"),
        ({"protection": tables.AutoProtection()}, "type` = 'auto' cannot"),
        ({"protection": tables.NoClipping()}, "type` = 'off' cannot"),
        ({"protection": tables.AdaptiveClipping(zeroing=False)}, "type` = 'adaptive' cannot"),
        ({"protection": tables.FixedClipping(zeroing=True)}, "drops updates by their values"),
        ({"compression": tables.UniformQuantization()}, "no codec can compress them. Use 'none'"),
        ({"row_correction": tables.FedSubAvgConfig()}, "it reveals which client typed which word"),
    ],
)
def test_settings_that_do_not_compose_are_rejected(fields, message):
    base = dict(PLAIN)
    if "privacy" in fields:
        del base["protection"]
    with pytest.raises(ConfigError, match=message):
        grid(**{**base, **fields})


def test_a_grid_too_fine_for_64_bits_is_refused():
    tiny = privacy_config.GaussianConfig(
        distribution="discrete", clip_norm=1.0, noise_multiplier=1e-14
    )
    with pytest.raises(ConfigError, match="more than 64"):
        grid(client_weighting="uniform", privacy=tiny)


@pytest.mark.parametrize("fields", [PLAIN, PRIVATE])
def test_integers_are_the_clipped_deltas_and_no_sum_wraps(fields):
    actual, rng = grid(clients=100, **fields), np.random.default_rng(0)
    deltas = [rng.normal(size=30) * scale for scale in (1e-3, 0.05, 10.0)]
    word = np.dtype(f"<u{actual.bits // 8}")
    steps = [to_grid(x, clip_norm=actual.clip_norm, step=actual.step) for x in deltas]
    for delta, integers in zip(deltas, steps, strict=True):
        clipped = delta * min(1, actual.clip_norm / np.linalg.norm(delta))
        np.testing.assert_allclose(integers * actual.step, clipped, atol=actual.step)
        assert np.linalg.norm(integers * actual.step) <= actual.clip_norm
    total = np.zeros(30, word)
    for integers in steps:
        total += integers.astype(word)
    np.testing.assert_array_equal(from_grid(total, step=actual.step), sum(steps) * actual.step)
    worst = to_grid(np.array([-1e9]), clip_norm=actual.clip_norm, step=actual.step)
    total = (100 * worst).astype(word)
    np.testing.assert_allclose(
        from_grid(total, step=actual.step), -100 * actual.clip_norm, rtol=1e-6
    )


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_delta_that_is_not_finite_counts_as_zeros(broken):
    actual = to_grid(np.array([1.0, broken]), clip_norm=1.0, step=0.5)
    np.testing.assert_array_equal(actual, [0, 0])
