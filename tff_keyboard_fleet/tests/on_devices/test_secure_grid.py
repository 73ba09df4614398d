"""Configs that secure sums support, and rejected ones."""

import dataclasses
from fractions import Fraction

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest

from tff_keyboard.config.sections import aggregation_config as tables
from tff_keyboard.parts.aggregator import AGGREGATORS
from tff_keyboard.privacy.mechanisms import sum_grid
from tff_keyboard.privacy.registry.blt import BltConfig
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptiveConfig
from tff_keyboard.privacy.registry.tree import TreeConfig
from tff_keyboard.storage.errors import ConfigError
from tff_keyboard_fleet.on_devices.secure_grid import SecureGrid, secure_grid
from tff_keyboard_fleet.wire.plan import SecureSums
from tff_keyboard_fleet.wire.secure_sums.grid import from_grid, to_grid

NOISE = {"clip_norm": 0.5, "noise_multiplier": 0.25}
PLAIN = {"client_weighting": "uniform", "protection": tables.FixedClipping(clip_norm=0.5)}
PRIVATE = {
    "client_weighting": "uniform",
    "privacy": GaussianConfig(distribution="discrete", **NOISE),
}


def grid(clients=100, **fields):
    return secure_grid(tables.AggregationConfig(**fields), clients_per_round=clients)


def test_the_grid_of_a_mean_and_of_a_private_mean():
    assert grid(**PLAIN) == SecureGrid(0.5, 0.5 / 2**20, 32)
    assert grid(**PRIVATE) == SecureGrid(0.5, 0.125 / 2**20, 32)
    assert grid(clients=2000, **PRIVATE).bits == 64


@pytest.mark.parametrize("kind", [GaussianConfig, TreeConfig, BltConfig])
@pytest.mark.parametrize("noise", [0.25, 7.0])
def test_the_grid_of_continuous_noise_does_not_depend_on_the_noise(kind, noise):
    privacy = kind(clip_norm=0.5, noise_multiplier=noise)
    actual = grid(client_weighting="uniform", privacy=privacy)
    assert actual == SecureGrid(0.5, 0.5 / 2**20, 32)


@hypothesis.given(
    directions=hnp.arrays(np.float32, 20, elements=st.floats(-1, 1, width=32)),
    length=st.floats(1 - 1e-7, 1 + 1e-7) | st.floats(0, 1e6),
    clip_norm=st.floats(1e-3, 1e3),
    noise=st.floats(0.01, 30),
    is_discrete=st.booleans(),
)
def test_no_update_is_longer_than_the_clip_norm_on_the_grid(
    directions, length, clip_norm, noise, is_discrete
):
    """The sensitivity of the sum in steps, with exact integers: rounding adds 0."""
    norm = np.linalg.norm(directions.astype(np.float64))
    delta = directions * (length * clip_norm / norm if norm else 1.0)
    step = sum_grid.sum_step(clip_norm=clip_norm, noise_multiplier=noise, is_discrete=is_discrete)
    steps = to_grid(delta.astype(np.float32), clip_norm=clip_norm, step=step)
    assert sum(int(x) ** 2 for x in steps) <= Fraction(clip_norm) ** 2 / Fraction(step) ** 2
    # The noise in the same unit; the two numbers of the accounting are its quotient.
    stddev = sum_grid.steps_per_stddev(noise, is_discrete=is_discrete)
    assert stddev * step == pytest.approx(noise * clip_norm, rel=1e-14)


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
                "privacy": GaussianConfig(**NOISE),
            },
            "'private_fedatt' cannot be used with secure sums",
        ),
        (
            {"privacy": GaussianAdaptiveConfig(**NOISE)},
            "privacy.type` = 'gaussian_adaptive' cannot be used with secure sums: .* Use 'tree'",
        ),
        ({"privacy": TreeConfig(clip_norm=0.5)}, "privacy.noise_multiplier` = 0.0 cannot"),
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
    tiny = GaussianConfig(distribution="discrete", clip_norm=1.0, noise_multiplier=1e-6)
    with pytest.raises(ConfigError, match="more than 64"):
        grid(clients=10**12, client_weighting="uniform", privacy=tiny)


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


@pytest.mark.parametrize("clients", [3, 100, 5000])
@pytest.mark.parametrize("noise", [1e-3, 0.25, 8.0])
def test_devices_follow_the_plans_of_all_grids(clients, noise):
    """A cohort has more devices than neighbours of one, so `degree` is at most `clients` - 1."""
    privacy = GaussianConfig(distribution="discrete", clip_norm=0.3, noise_multiplier=noise)
    tree = TreeConfig(clip_norm=0.3, noise_multiplier=noise)
    for fields in (PLAIN, PRIVATE | {"privacy": privacy}, PRIVATE | {"privacy": tree}):
        settings = dataclasses.asdict(grid(clients=clients, **fields))
        SecureSums(**settings, degree=clients - 1, threshold=clients - 1).require_exact_integers()


@pytest.mark.parametrize(
    "clip_norm, step",
    [(1e30, 1e-19), (1.0, 2.0**-63), (1e308, 1e-308), (1.0, 0.0), (-1.0, 1.0), (np.inf, 1.0)],
)
def test_numbers_beyond_int64_are_refused(clip_norm, step):
    """Before, NumPy turned all of them into -2^63."""
    with pytest.raises(ValueError, match="`clip_norm` / `step` <= "):
        to_grid(np.array([0.5, 1e-20]), clip_norm=clip_norm, step=step)


def test_the_finest_grid_is_exact():
    """2^62 steps per clip norm; powers of two have exact products."""
    delta = np.array([-0.5, 0.0, 2.0**-62])
    actual = to_grid(delta, clip_norm=1.0, step=2.0**-62)
    np.testing.assert_array_equal(actual, [-(2**61), 0, 1])
    actual = to_grid(np.array([0.0, 1e-300]), clip_norm=1e-300, step=1e-309)
    assert actual[0] == 0
    assert actual[1] == pytest.approx(1e9, rel=1e-3)  # denormal numbers have fewer digits


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_delta_that_is_not_finite_counts_as_zeros(broken):
    actual = to_grid(np.array([1.0, broken]), clip_norm=1.0, step=0.5)
    np.testing.assert_array_equal(actual, [0, 0])
