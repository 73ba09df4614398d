"""How the clients of a round are handed over: order, form, and every rule in packs, to the bit."""

import functools
import itertools

import numpy as np
import pytest
import tensorflow_federated as tff
from hypothesis import given
from hypothesis import strategies as st

from tests.support import fakes
from tests.support.examples import examples
from tff_keyboard import config as config_lib
from tff_keyboard.attacks import attackers
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.federated.algorithms.build_process import build_process
from tff_keyboard.federated.learning import client_delivery
from tff_keyboard.federated.learning.client_delivery import largest_first
from tff_keyboard.models import build_model
from tff_keyboard.packs import compiler
from tff_keyboard.program.engines import execution

SIZES = st.lists(st.integers(0, 1000), max_size=40)


@given(SIZES, st.integers(1, 6))
@examples(100)
def test_every_client_once_and_each_part_from_large_to_small(sizes, parts):
    order = largest_first(sizes, parts)
    assert sorted(order) == list(range(len(sizes)))
    by_size = sorted(sizes, reverse=True)
    start = 0
    for part in range(parts):
        expected = by_size[part::parts]
        assert [sizes[p] for p in order[start : start + len(expected)]] == expected
        start += len(expected)


@given(SIZES)
@examples(50)
def test_equal_sizes_stay_in_order(sizes):
    order = largest_first(sizes, 1)
    assert order == sorted(order, key=lambda p: (-sizes[p], p))


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=9))
@examples(50)
def test_two_cores_are_done_nearly_as_early_as_possible(sizes):
    """Graham 1969: from large to small, at most 7/6 of the best time on two cores."""
    cores = [0, 0]
    for position in largest_first(sizes, 1):
        cores[cores.index(min(cores))] += sizes[position]
    halves = itertools.product([0, 1], repeat=len(sizes))
    best = min(max(t := sum(itertools.compress(sizes, h)), sum(sizes) - t) for h in halves)
    assert max(cores) <= best * 7 / 6 + 1e-9


# A round in packs against one with a dataset for each client.

VOCABULARY, UNITS, DIM, CLIENTS = 15, 6, 4, 5
SMALL = (
    "client.batch_size=3",
    f"train.clients_per_round={CLIENTS}",
    f"model.units={UNITS}",
    f"model.embedding_size={DIM}",
    "execution.sub_rounds=2",
    "execution.clients_per_pack=3",
)
GAUSSIAN = (
    "aggregation.client_weighting=uniform",
    "aggregation.privacy.mechanism=gaussian",
    "aggregation.privacy.noise_multiplier=1.0",
)
# The mean alone is in the quick test, FedAtt alone in FedAtt with noise.
RULES = {
    "fedadam_and_momentum": (
        "server.optimizer=fedadam",
        "server.learning_rate=0.01",
        "client.momentum=0.5",
        "aggregation.client_weighting=examples",
    ),
    "lwf": ("fine_tuning.method.name=lwf", "fine_tuning.method.true_label_weight=0.4"),
    "fedsgd": ("client.algorithm=fedsgd",),
    "fedmed": ("aggregation.rule.name=fedmed", "aggregation.rule.top_fraction=0.6"),
    "fedmed_after": ("aggregation.rule.name=fedmed", "aggregation.rule.local_loss=after_training"),
    "median": ("aggregation.rule.name=median",),
    "trimmed_mean": ("aggregation.rule.name=trimmed_mean",),
    "quantised": ("aggregation.compression.codec=uniform_quantization",),
    "noisy_fedatt": (
        "aggregation.rule.name=fedatt",
        "aggregation.client_noise.distribution=normal",
        "aggregation.client_noise.scale=0.1",
    ),
    "gaussian": GAUSSIAN,
    "adaptive": (
        *GAUSSIAN,
        "aggregation.privacy.mechanism=gaussian_adaptive",
        "aggregation.privacy.clipped_count_noise=0.5",
    ),
    "tree": (*GAUSSIAN, "aggregation.privacy.mechanism=tree"),
    "private_fedatt": (*GAUSSIAN, "aggregation.rule.name=private_fedatt"),
}


@pytest.fixture(scope="module")
def contexts():
    """Contexts of one and of two workers, two sub-rounds both."""
    with (
        execution.install_context(1, num_subrounds=2) as one,
        execution.install_context(2, num_subrounds=2) as two,
    ):
        yield one.context, two.context


def config_of(*overrides):
    return config_lib.loads("", [*SMALL, *overrides])


@functools.cache
def built(*overrides, joined=False):
    """A process, built once: that takes longest here."""
    return process_of(config_of(*overrides), joined=joined)


@functools.cache
def delivered(*overrides):
    """The same in packs, as a training on this machine hands it out."""
    return client_delivery.build_delivery(built(*overrides, joined=True), config_of(*overrides))


def process_of(config, **options):
    model = build_model("cifg", vocabulary_size=VOCABULARY, seed=1, units=UNITS, embedding_size=DIM)
    return build_process(config, model, build_noise=noise_of_rounds, **options)


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


def assert_same(first, second):
    first, second = (tff.structure.from_container(x, recursive=True) for x in (first, second))
    for a, b in zip(tff.structure.flatten(first), tff.structure.flatten(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_round_in_packs_has_the_bits_of_clients_one_by_one(contexts, monkeypatch):
    """The cheapest case of `test_packs_have_the_bits_of_clients_one_by_one`."""
    monkeypatch.setattr(client_delivery.dealing, "deal", lambda sizes, packs: [[0, 1], [2, 3, 4]])
    tff.framework.set_default_context(contexts[0])
    process, delivery = built(), delivered()
    state, clients = process.initialize(), cohort(1)
    expected = process.next(state, [batches_lib.batches_dataset(c) for c in clients])
    output = delivery.process.next(state, delivery.deliver(clients, [1000, 1000, 0, 0, 0]))
    assert_same(output, expected)
    weights = (process.get_model_weights(s).trainable for s in (state, output.state))
    assert any(np.any(a != b) for a, b in zip(*weights, strict=True))


@pytest.mark.slow
@pytest.mark.no_cover  # the quick case above is traced
@pytest.mark.parametrize("rule", RULES)
def test_packs_have_the_bits_of_clients_one_by_one(contexts, monkeypatch, rule):
    config = config_of(*RULES[rule])
    process, joined = process_of(config), process_of(config, joined=True)
    delivery = client_delivery.build_delivery(joined, config)
    packed = getattr(delivery.process, "process", delivery.process)  # within that of the noise
    assert isinstance(packed, compiler.PackedProcess)
    assert not delivery.note
    thin = client_delivery.build_delivery(joined, config, thin=True)
    # As five clients are cut into two sub-rounds.
    monkeypatch.setattr(client_delivery.dealing, "deal", lambda sizes, packs: [[0, 1], [2, 3, 4]])
    tff.framework.set_default_context(contexts[0])
    state = process.initialize()
    forms = (delivery.process, thin.process)
    for round_num, order in ((1, forms), (2, forms[::-1])):
        clients = cohort(round_num)
        packs = delivery.deliver(clients, [1000, 1000, 0, 0, 0])
        tff.framework.set_default_context(contexts[0])
        expected = process.next(state, [batches_lib.batches_dataset(c) for c in clients])
        for context, form in zip(contexts, order, strict=True):
            tff.framework.set_default_context(context)
            output = form.next(state, packs)
            assert type(output) is type(expected)
            assert type(output.state) is type(expected.state)
            assert_same(output, expected)
        state = output.state
    start = process.get_model_weights(process.initialize()).trainable
    end = process.get_model_weights(state).trainable
    assert any(np.any(a != b) for a, b in zip(start, end, strict=True))


@pytest.mark.slow
def test_wrapped_work_goes_into_packs_too(contexts):
    def wrap(work):
        return attackers.build_attacked_client_work(work, "nan", share=1.0, seed=1)

    config = config_of()
    process = process_of(config, wrap_client_work=wrap, joined=True)
    delivery = client_delivery.build_delivery(process, config)
    tff.framework.set_default_context(contexts[1])
    clients = cohort(1)
    output = delivery.process.next(process.initialize(), delivery.deliver(clients, [1] * CLIENTS))
    assert output.metrics["aggregator"]["refused_non_finite"] == CLIENTS


def test_a_cohort_of_nobody(contexts):
    process, delivery = built(), delivered()
    tff.framework.set_default_context(contexts[0])
    state = process.initialize()
    output = delivery.process.next(state, delivery.deliver([], []))
    assert output.metrics["client_work"]["train"]["tokens"] == 0
    assert_same(process.get_model_weights(output.state), process.get_model_weights(state))


@pytest.mark.slow
def test_joined_datasets_one_by_one_have_the_same_bits(contexts):
    config = config_of("execution.clients_per_pack=1")
    plain, joined = process_of(config), process_of(config, joined=True)
    delivery = client_delivery.build_delivery(joined, config)
    assert delivery.process is joined
    assert not delivery.note
    tff.framework.set_default_context(contexts[0])
    clients, sizes = cohort(1), [0] * CLIENTS
    expected = plain.next(plain.initialize(), client_delivery.Handover(2)(clients, sizes))
    assert_same(joined.next(plain.initialize(), delivery.deliver(clients, sizes)), expected)


def test_a_process_that_is_none_of_tffs_gets_its_clients_one_by_one():
    process = fakes.NumpyProcess()
    assert client_delivery.build_delivery(process, config_of()).note
    delivery = client_delivery.build_delivery(process, config_of("execution.clients_per_pack=1"))
    assert delivery.process is process
    assert not delivery.note
    (dataset,) = delivery.deliver(cohort(1)[1:2], [3])
    assert dataset.element_spec == batches_lib.ELEMENT_SPEC
