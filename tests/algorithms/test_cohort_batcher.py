"""How the clients of a round are handed over, and every rule in packs against stock TFF."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard import config as config_lib
from tff_keyboard.algorithms import cohort_batcher
from tff_keyboard.algorithms.rounds.noised import NoisedProcess
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.models import build_model
from tff_keyboard.training.build import build_process

VOCABULARY, UNITS, DIM, CLIENTS = 15, 6, 4, 5
SMALL = (
    "client.batch_size=3",
    f"train.clients_per_round={CLIENTS}",
    f"model.units={UNITS}",
    f"model.embedding_size={DIM}",
    "execution.clients_per_pack=3",
)
GAUSSIAN = (
    "aggregation.client_weighting=uniform",
    "aggregation.privacy.type=gaussian",
    "aggregation.privacy.noise_multiplier=1.0",
)
# Random numbers are drawn from a hash of a client's delta: where its last bit differs, they all do.
HASHED = ("quantised", "noisy_fedatt")
# The mean alone is in the quick test, FedAtt alone in FedAtt with noise.
RULES = {
    "fedadam_and_momentum": (
        "server.type=fedadam",
        "server.learning_rate=0.01",
        "client.momentum=0.5",
        "aggregation.client_weighting=examples",
    ),
    "lwf": ("fine_tuning.method.type=lwf", "fine_tuning.method.true_label_weight=0.4"),
    "fedsgd": ("client.type=fedsgd",),
    "fedprox": ("client.type=fedprox", "client.proximal_strength=0.5"),
    "mimelite": ("client.type=mimelite", "client.learning_rate=0.2"),
    "fedmed": ("aggregation.rule.type=fedmed", "aggregation.rule.top_fraction=0.6"),
    "fedmed_after": ("aggregation.rule.type=fedmed", "aggregation.rule.local_loss=after_training"),
    "median": ("aggregation.rule.type=median",),
    "trimmed_mean": ("aggregation.rule.type=trimmed_mean",),
    "quantised": ("aggregation.compression.type=uniform_quantization",),
    "noisy_fedatt": (
        "aggregation.rule.type=fedatt",
        "aggregation.client_noise.type=normal",
        "aggregation.client_noise.scale=0.1",
    ),
    "gaussian": GAUSSIAN,
    "adaptive": (
        *GAUSSIAN,
        "aggregation.privacy.type=gaussian_adaptive",
        "aggregation.privacy.clipped_count_noise=0.5",
    ),
    "tree": (*GAUSSIAN, "aggregation.privacy.type=tree"),
    "private_fedatt": (*GAUSSIAN, "aggregation.rule.type=private_fedatt"),
}


def config_of(*overrides):
    return config_lib.loads("", [*SMALL, *overrides])


@functools.cache
def delivered():
    """A process in packs, as a training on this machine hands it out."""
    return cohort_batcher.prepare_process(process_of(config_of(), joined=True), clients_per_pack=3)


def with_noise(config, process):
    """As `process_transforms.round_transforms` wraps it, with noise of the test's own."""
    return NoisedProcess(process, noise_of_rounds) if config.aggregation.is_private else process


def process_of(config, **options):
    model = build_model("cifg", vocabulary_size=VOCABULARY, seed=1, units=UNITS, embedding_size=DIM)
    return build_process(config, model, **options)


def noise_of_rounds(size):
    return lambda round_num: np.random.default_rng([7, round_num]).normal(size=size)


def cohort(seed):
    """Batches of clients, the first of which has nothing."""
    rng = np.random.default_rng(seed)
    arguments = dict(batch_size=3, max_length=6, max_examples=0, epochs=1, seed=(seed,))
    messages = [
        [rng.integers(4, VOCABULARY, rng.integers(1, 7)) for _ in range(2 * client)]
        for client in range(CLIENTS)
    ]
    return [batches_lib.client_batches(own, **arguments) for own in messages]


def assert_close(first, second, rtol=1e-6):
    assert type(first) is type(second)
    first, second = (tff.structure.from_container(x, recursive=True) for x in (first, second))
    for a, b in zip(tff.structure.flatten(first), tff.structure.flatten(second), strict=True):
        if isinstance(b, bytes):  # the seed of a generator
            assert a == b
        else:
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-7)


@given(st.lists(st.integers(0, 1000), max_size=40), st.integers(0, 7))
@examples(50)
def test_every_client_is_in_one_pack(sizes, clients_per_pack):
    groups = cohort_batcher.CohortBatcher(clients_per_pack).plan(sizes)
    assert sorted(p for group in groups for p in group) == list(range(len(sizes)))
    assert len(groups) == cohort_batcher.load_balancing.num_packs(len(sizes), clients_per_pack)


def test_a_round_changes_the_weights():
    prepared = delivered()
    state = prepared.process.initialize()
    output = prepared.process.next(state, prepared.batcher(cohort(1), [1] * CLIENTS))
    weights = (prepared.process.get_model_weights(s).trainable for s in (state, output.state))
    assert any(np.any(a != b) for a, b in zip(*weights, strict=True))
    assert output.metrics["client_work"]["train"]["tokens"] > 0


@pytest.mark.slow
@pytest.mark.no_cover  # the quick case above is traced
@pytest.mark.parametrize("rule", ["mean", *RULES])
def test_rounds_equal_stock_tff(rule, stock_tff):
    config = config_of(*RULES.get(rule, ()))
    process = with_noise(config, process_of(config))
    prepared = cohort_batcher.prepare_process(process_of(config, joined=True), clients_per_pack=3)
    assert prepared.packed is not None
    in_packs = with_noise(config, prepared.process)
    state = process.initialize()
    for round_num in (1, 2):
        clients = cohort(round_num)
        with stock_tff():
            expected = process.next(state, [batches_lib.batches_dataset(c) for c in clients])
        output = in_packs.next(state, prepared.batcher(clients, [1] * CLIENTS))
        if rule in HASHED:
            assert_close(output.metrics["client_work"], expected.metrics["client_work"])
            break
        # The first steps of several clients are computed together, which rounds differently.
        assert_close(output.metrics, expected.metrics, rtol=5e-6)
        assert_close(output.state, expected.state, rtol=1e-5)
        state = output.state
    start = process.get_model_weights(process.initialize()).trainable
    end = process.get_model_weights(output.state).trainable
    assert any(np.any(a != b) for a, b in zip(start, end, strict=True))


def test_empty_cohort():
    process = delivered().process
    state = process.initialize()
    output = process.next(state, delivered().batcher([], []))
    assert output.metrics["client_work"]["train"]["tokens"] == 0
    assert_close(process.get_model_weights(output.state), process.get_model_weights(state))
