"""The first step of a pack's clients, computed together, equals the step of each client alone."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from hypothesis import given, settings
from hypothesis import strategies as st

from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.algorithms import fed_avg, variable_model
from tff_keyboard.algorithms.client_packing import round_form, row_groups
from tff_keyboard.algorithms.client_training import TouchedTableRows
from tff_keyboard.algorithms.cohort_batcher import prepare_process
from tff_keyboard.algorithms.fedmed.process import build_fedmed
from tff_keyboard.algorithms.optimizers.local_sgd import LocalSgd
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.data import elements
from tff_keyboard.models import cifg, first_step

VOCABULARY = 30


def batch_of(generator, rows, width):
    """Sequences of random words, the first of `width` words, padded on the right."""
    batch = generator.integers(1, VOCABULARY, [rows, width]).astype(np.int32)
    for row in batch[1:]:
        row[generator.integers(2, width + 1) :] = 0
    return batch


def client_of(seed, num_batches):
    generator = np.random.default_rng(seed)
    sizes = generator.integers([1, 2], [5, 9], [num_batches, 2])
    return [batch_of(generator, rows, width) for rows, width in sizes]


def round_of(clients, clients_per_pack, *, shares, build=fed_avg.build_fed_avg, **options):
    """Returns weights and metrics after a round from the initial weights."""
    model_fn = variable_model.build_model_fn(
        "cifg",
        vocabulary_size=VOCABULARY,
        seed=1,
        units=7,
        embedding_size=4,
        shares_first_step=shares,
        **options.pop("model", {}),
    )
    process = build(
        model_fn,
        client_optimizer=options.pop("client_optimizer", LocalSgd(0.5, clip_norm=0.2)),
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        uniform_weights=False,
        joined=True,
        **({"aggregator": tff.aggregators.MeanFactory()} | options),
    )
    prepared = prepare_process(process, clients_per_pack=clients_per_pack)
    data = prepared.batcher(clients, [sum(batch.size for batch in one) for one in clients])
    output = prepared.process.next(prepared.process.initialize(), data)
    weights = prepared.process.get_model_weights(output.state).trainable
    return [np.asarray(w) for w in weights], output.metrics, prepared


def assert_same_round(clients, clients_per_pack=3, **options):
    separate, metrics, _ = round_of(clients, clients_per_pack, shares=False, **dict(options))
    shared, shared_metrics, prepared = round_of(clients, clients_per_pack, shares=True, **options)
    assert prepared.process.shares_row_work
    for a, b in zip(separate, shared, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=3e-7)
    train = [m["client_work"]["train"] for m in (metrics, shared_metrics)]
    assert {n: v for n, v in train[0].items() if n != "nll"} == {
        n: v for n, v in train[1].items() if n != "nll"
    }
    np.testing.assert_allclose(train[0]["nll"], train[1]["nll"], rtol=1e-6)


CLIENTS = [client_of([3, n], num_batches) for n, num_batches in enumerate([1, 2, 0, 3, 1, 1, 4])]


@pytest.mark.parametrize("clients_per_pack", [1, 3, 7])
def test_equals_separate_first_steps(clients_per_pack):
    assert_same_round(CLIENTS, clients_per_pack)


@pytest.mark.parametrize("cells", [1, 20, 45])
def test_groups_of_any_size(monkeypatch, cells):
    monkeypatch.setattr(row_groups, "_CELLS", cells)
    assert_same_round(CLIENTS, 7)


def test_only_clients_without_text():
    weights, metrics, _ = round_of([[], []], 2, shares=True)
    separate, _, _ = round_of([[], []], 2, shares=False)
    assert metrics["client_work"]["train"]["tokens"] == 0
    for a, b in zip(weights, separate, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(("position", "value"), [(0, np.nan), (1, 1e13), (3, np.inf), (4, 3e38)])
def test_bounded_factors_stand_for_the_check_of_the_update(position, value, monkeypatch):
    def round_after_change():
        _, _, prepared = round_of(CLIENTS[:1], 1, shares=True)
        process = prepared.process
        state = process.initialize()
        weights = process.get_model_weights(state)
        trainable = [np.array(weight) for weight in weights.trainable]
        trainable[position].flat[::5] = value
        changed = tff.learning.models.ModelWeights(trainable, weights.non_trainable)
        data = prepared.batcher(CLIENTS[:1], [CLIENTS[0][0].size])
        output = process.next(process.set_model_weights(state, changed), data)
        after = process.get_model_weights(output.state).trainable
        return output.metrics["client_work"]["train"]["tokens"], [np.asarray(w) for w in after]

    tokens, weights = round_after_change()
    monkeypatch.setattr(cifg, "are_bounded", lambda factors: tf.constant(False))
    checked_tokens, checked_weights = round_after_change()
    assert tokens == checked_tokens
    for a, b in zip(weights, checked_weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_bound_of_factors():
    ones = tf.ones([3, 4])
    assert first_step.are_bounded([ones, -1e12 * ones, ones[:0]])
    for value in (np.nan, np.inf, -np.inf, 1.1e12):
        assert not first_step.are_bounded([ones, tf.concat([ones, value * ones], 0)])


def test_any_optimizer():
    assert_same_round(CLIENTS, client_optimizer=tff.learning.optimizers.build_adam(0.01))


@pytest.mark.parametrize("local_loss", ["during_training", "after_training"])
def test_fedmed(local_loss):
    factory = FedMedFactory(top_fraction=0.5, max_clients=7, local_loss=local_loss)

    def build(model_fn, *, aggregator=None, **options):
        del aggregator
        return build_fedmed(model_fn, factory, **options)

    assert_same_round(CLIENTS, build=build)


def test_touched_rows():
    from tff_keyboard.aggregators.row_correction import RowCorrectionFactory

    assert_same_round(
        CLIENTS,
        touched_rows=TouchedTableRows(VOCABULARY, lambda batch: (batch["x"], batch["y"])),
        aggregator=RowCorrectionFactory(
            tff.aggregators.MeanFactory(),
            largest_factor=10.0,
            variable_names=["embedding", "kernel", "recurrent_kernel", "bias", "projection"],
        ),
    )


@pytest.mark.parametrize("model", [{"embedding_dropout": 0.2}, {"output_dropout": 0.2}])
def test_dropout_is_not_shared(model):
    *_, prepared = round_of(CLIENTS, 3, shares=True, model=model)
    assert not prepared.process.shares_row_work


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(1, 4), st.integers(2, 6)), max_size=3), min_size=1),
    st.integers(1, 40),
    st.integers(0, 99),
)
def test_rows_and_starts(sizes, cells, seed):
    """Groups contain the first batch of each client, in order, and know its targets."""
    generator = np.random.default_rng(seed)
    clients = [[batch_of(generator, rows, width) for rows, width in one] for one in sizes]
    spec = batches_lib.BATCH_SPEC
    pack = round_form.make_pack(
        [[elements.join(client, spec)] for client in clients], elements.joined_spec(spec)
    )

    class Rows:
        rows, results = "rows", ["rows"]

        def __call__(self, feeds):
            return [feeds["rows"]]

    groups = row_groups.RowGroups(
        Rows(), [tuple(map(tf.constant, leaf.values())) for leaf in pack["leaves"]], {}, cells
    )
    first, rows, counts = 0, [], []
    while first < len(clients):
        group = groups.group(tf.constant(first))
        size = sum(one[0].size for one in clients[first : int(group.end)] if one)
        assert size <= cells or group.end == first + 1
        rows += [row[row > 0].tolist() for row in group.results["rows"].numpy()]
        counts += np.diff(group.starts.numpy())[first : int(group.end)].tolist()
        first = int(group.end)
    firsts = [one[0] if one else np.zeros([0, 2], np.int32) for one in clients]
    assert rows == [row[row > 0].tolist() for batch in firsts for row in batch]
    assert counts == [np.count_nonzero(batch[:, 1:]) for batch in firsts]
