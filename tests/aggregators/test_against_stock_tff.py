"""Every rule in this process gives what TFF's own runtime gives, with 10 and 100 clients."""

import collections

import numpy as np
import pytest

from tests.support.aggregation_fakes import VALUE_TYPE, WEIGHT_TYPE, deltas, plain
from tests.support.noise_fakes import noised
from tff_keyboard.aggregators.fedmed.accumulator import fedmed_weight_type
from tff_keyboard.aggregators.registry.fedatt import FedAttConfig
from tff_keyboard.aggregators.registry.fedmed import FedMedConfig
from tff_keyboard.aggregators.registry.median import MedianConfig
from tff_keyboard.aggregators.registry.private_fedatt import PrivateFedAttConfig
from tff_keyboard.aggregators.registry.trimmed_mean import TrimmedMeanConfig
from tff_keyboard.config.sections.aggregation_config import (
    AggregationConfig,
    NoClipping,
    NormalClientNoise,
    UniformQuantization,
)
from tff_keyboard.privacy.registry.gaussian import GaussianConfig
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptiveConfig
from tff_keyboard.privacy.registry.tree import TreeConfig
from tff_keyboard.training.aggregation import build_aggregator

# Computations by the dozen are built here, of code that other tests trace for `make coverage`.
pytestmark = pytest.mark.no_cover

PRIVATE = {"client_weighting": "uniform"}
NOISE = {"noise_multiplier": 0.5}
CONFIGS = {
    "mean": AggregationConfig(),
    "mean, tree": AggregationConfig(privacy=TreeConfig(**NOISE), **PRIVATE),
    "mean, gaussian_adaptive": AggregationConfig(
        privacy=GaussianAdaptiveConfig(**NOISE), **PRIVATE
    ),
    "fedatt": AggregationConfig(rule=FedAttConfig(), client_noise=NormalClientNoise(scale=0.01)),
    "fedatt, bare": AggregationConfig(rule=FedAttConfig(), protection=NoClipping()),
    "fedmed": AggregationConfig(rule=FedMedConfig()),
    "fedmed, topK": AggregationConfig(rule=FedMedConfig(top_fraction=0.5)),
    "private_fedatt": AggregationConfig(
        rule=PrivateFedAttConfig(), privacy=GaussianConfig(**NOISE, clip_norm=0.5), **PRIVATE
    ),
    "median": AggregationConfig(rule=MedianConfig()),
    "trimmed_mean": AggregationConfig(rule=TrimmedMeanConfig()),
    "fedatt, compressed": AggregationConfig(rule=FedAttConfig(), compression=UniformQuantization()),
}


def weights(name, clients):
    rng = np.random.default_rng(clients)
    if not name.startswith("fedmed"):
        return list(rng.integers(0, 5, clients).astype(np.float32))
    return [
        collections.OrderedDict(
            num_examples=np.float32(rng.integers(0, 5)),
            loss=np.float32(rng.integers(0, 4)),  # with ties
            divergence=rng.uniform(0, 0.6, 3).astype(np.float32),
        )
        for _ in range(clients)
    ]


def two_rounds(name, process):
    """Of 10 clients, then of 100."""
    state, outputs = process.initialize(), []
    for round_num, clients in enumerate((10, 100)):
        values = deltas(round_num, clients, 0.5)
        outputs.append(process.next(state, values, weights(name, clients)))
        state = outputs[-1].state
    return outputs


def built(name):
    config = CONFIGS[name]
    factory = build_aggregator(config, clients_per_round=100, seed=3)
    weight_type = fedmed_weight_type(3) if name.startswith("fedmed") else WEIGHT_TYPE
    process = factory.create(VALUE_TYPE, weight_type)
    if config.is_private:
        process = noised(process, config.privacy.type)
    return process


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_rules_in_this_process_equal_stock_tff(name, stock_tff):
    process = built(name)
    here = two_rounds(name, process)
    with stock_tff():
        there = two_rounds(name, process)
    for one, two in zip(here, there, strict=True):
        for a, b in zip(one.result, two.result, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)
        measured = plain(one.measurements)
        for key, value in plain(two.measurements).items():
            np.testing.assert_allclose(measured[key], value, rtol=1e-5, atol=1e-6, err_msg=key)
