"""Every rule over two worker processes gives what it gives locally, with 10 and 100 clients."""

import collections

import numpy as np
import pytest

from tests.support import session_context
from tests.support.aggregation_fakes import VALUE_TYPE, WEIGHT_TYPE, deltas, plain
from tests.support.noise_fakes import noised
from tff_keyboard.config.sections.aggregation_config import (
    AggregationConfig,
    NoClipping,
    NormalClientNoise,
    UniformQuantization,
)
from tff_keyboard.config.sections.privacy_config import Gaussian, GaussianAdaptive, Tree
from tff_keyboard.config.sections.rule_config import (
    FedAtt,
    FedMed,
    Median,
    PrivateFedAtt,
    TrimmedMean,
)
from tff_keyboard.federated.algorithms.build_aggregator import build_aggregator
from tff_keyboard.federated.algorithms.fedmed.client_weight import fedmed_weight_type
from tff_keyboard.program.engines import execution

# Computations by the dozen are built here, of code that other tests trace for `make coverage`.
pytestmark = pytest.mark.no_cover

PRIVATE = {"client_weighting": "uniform"}
NOISE = {"noise_multiplier": 0.5}
CONFIGS = {
    "mean": AggregationConfig(),
    "mean, tree": AggregationConfig(privacy=Tree(restart_rounds=2, **NOISE), **PRIVATE),
    "mean, gaussian_adaptive": AggregationConfig(privacy=GaussianAdaptive(**NOISE), **PRIVATE),
    "fedatt": AggregationConfig(rule=FedAtt(), client_noise=NormalClientNoise(scale=0.01)),
    "fedatt, bare": AggregationConfig(rule=FedAtt(), protection=NoClipping()),
    "fedmed": AggregationConfig(rule=FedMed()),
    "fedmed, topK": AggregationConfig(rule=FedMed(top_fraction=0.5)),
    "private_fedatt": AggregationConfig(
        rule=PrivateFedAtt(), privacy=Gaussian(**NOISE, clip_norm=0.5), **PRIVATE
    ),
    "median": AggregationConfig(rule=Median()),
    "trimmed_mean": AggregationConfig(rule=TrimmedMean()),
    "fedatt, compressed": AggregationConfig(rule=FedAtt(), compression=UniformQuantization()),
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
        restart_rounds = getattr(config.privacy, "restart_rounds", 0)
        process = noised(process, config.privacy.mechanism, restart_rounds=restart_rounds)
    return process


@pytest.fixture
def restored_context():
    yield
    session_context.use()


@pytest.mark.slow
@pytest.mark.usefixtures("restored_context")
def test_two_workers_equal_one():
    processes = {name: built(name) for name in CONFIGS}
    with execution.install_context(1):
        alone = {name: two_rounds(name, process) for name, process in processes.items()}
    with execution.install_context(2):
        together = {name: two_rounds(name, process) for name, process in processes.items()}
    for name in CONFIGS:
        for one, two in zip(alone[name], together[name], strict=True):
            for a, b in zip(one.result, two.result, strict=True):
                np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6, err_msg=name)
            measured = plain(one.measurements)
            for key, value in plain(two.measurements).items():
                np.testing.assert_allclose(value, measured[key], rtol=1e-5, atol=1e-6, err_msg=key)
