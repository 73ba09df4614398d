"""Transfer learning on the server: eq. 4 in NumPy, limiting cases, broken clients, exact resume.

In most tests no client trains: a "dataset" is the model that its client sends.
"""

import asyncio
import shutil
import types

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support.fakes import digest, tiny_config
from tests.support.truth.model_truth import cifg_step, float64_weights, random_batch, randomise
from tests.training.test_federated import assert_same_run
from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.cohort_batcher import prepare_process
from tff_keyboard.algorithms.fine_tuning.server_transfer import (
    ServerTransferProcess,
    build_transfer_text,
)
from tff_keyboard.algorithms.rounds.round_process import chain
from tff_keyboard.config.resume_policy import numerics_config
from tff_keyboard.data import batches
from tff_keyboard.data.vocabulary import BOS, EOS, NUM_SPECIAL, OOV, PAD
from tff_keyboard.models import build_model
from tff_keyboard.models.saved_model import weights_by_name
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import process_transforms
from tff_keyboard.training.build import build_process
from tff_keyboard.training.federated import train_federated
from tff_keyboard.training.loop import best_round, checkpoints, release
from tff_keyboard.training.round_lines import RoundLines

VOCABULARY, DIM, UNITS = 9, 3, 4
RNG = np.random.default_rng(3)
BATCH = random_batch(RNG, batch=5, longest=6, vocabulary=VOCABULARY)


def tiny_model(seed, scale=0.5, name="cifg"):
    model = build_model(
        name, vocabulary_size=VOCABULARY, seed=seed, units=UNITS, embedding_size=DIM
    )
    randomise(model, np.random.default_rng(seed), scale)
    return model


def weights_of(model):
    return list(weights_by_name(model).values())


class SentModels:
    """Looks like FedAvg of one client, whose dataset is the weights that it sends, or None."""

    def __init__(self, initial):
        self._initial = initial

    def initialize(self):
        return self._state(self._initial)

    def next(self, state, datasets):
        sent = datasets[0] if datasets else None
        metrics = {
            "client_work": {"train": {"tokens": np.int64(len(datasets) * 7)}},
            "finalizer": {"update_non_finite": np.int32(sent is None)},
        }
        after = state if sent is None else self._state(sent)
        return types.SimpleNamespace(state=after, metrics=metrics)

    def get_model_weights(self, state):
        return state.global_model_weights

    def _state(self, weights):
        return tff.learning.templates.LearningAlgorithmState(
            tff.learning.models.ModelWeights(list(weights), []), (), (), (), ()
        )


def process_of(server, text=(BATCH,), *, learning_rate=0.5, clip_norm=0.0):
    return ServerTransferProcess(
        SentModels(weights_of(server)),
        server,
        lambda round_num, model: list(text),
        learning_rate=learning_rate,
        clip_norm=clip_norm,
    )


def server_weights(process, state):
    return process.get_model_weights(state).trainable


def probabilities(weights, batch):
    """NumPy float64: [n, vocabulary] at every real target, row by row."""
    ids, targets = batch[:, :-1], batch[:, 1:]
    state = (np.zeros([len(batch), DIM]), np.zeros([len(batch), UNITS]))
    steps = []
    for time in range(ids.shape[1]):
        hidden, state = cifg_step(weights, weights[0][ids[:, time]], state)
        exponentials = np.exp(hidden @ weights[0].T)
        steps.append(exponentials / exponentials.sum(axis=1, keepdims=True))
    return np.stack(steps, axis=1)[targets != PAD]


def numpy_loss(weights, soft_labels, batch):
    return -np.mean(np.sum(soft_labels * np.log(probabilities(weights, batch)), axis=1))


def numpy_gradient(weights, soft_labels, batch, width=1e-6):
    """By central differences."""
    gradient = [np.zeros_like(weight) for weight in weights]
    for weight, slope in zip(weights, gradient, strict=True):
        for index in np.ndindex(weight.shape):
            value = weight[index]
            losses = []
            for moved in (value - width, value + width):
                weight[index] = moved
                losses.append(numpy_loss(weights, soft_labels, batch))
            weight[index] = value
            slope[index] = (losses[1] - losses[0]) / (2 * width)
    return gradient


def divergence(teacher, student, batch):
    """KL(teacher || student), mean over positions."""
    p, q = (probabilities([np.float64(w) for w in x], batch) for x in (teacher, student))
    return np.mean(np.sum(p * np.log(p / q), axis=1))


@pytest.mark.parametrize("clip_norm", [0.0, 0.01, 1e3], ids=["none", "clips", "does not clip"])
def test_one_step_follows_equation_4(clip_norm):
    server, *clients = (tiny_model(seed) for seed in range(3))
    process = process_of(server, clip_norm=clip_norm)
    output = process.next(process.initialize(), [weights_of(client) for client in clients])

    start = float64_weights(server)
    soft_labels = np.mean([probabilities(float64_weights(c), BATCH) for c in clients], axis=0)
    gradient = numpy_gradient(start, soft_labels, BATCH)
    norm = np.sqrt(sum(np.sum(g**2) for g in gradient))
    assert norm > 0.02
    scale = min(1.0, clip_norm / norm) if clip_norm else 1.0
    learned = server_weights(process, output.state)
    for weight, before, slope in zip(learned, start, gradient, strict=True):
        np.testing.assert_allclose(weight, before - 0.5 * scale * slope, atol=1e-5)
    transfer = output.metrics["transfer"]
    tokens = np.count_nonzero(BATCH[:, 1:])
    assert (transfer["clients"], transfer["clients_dropped"]) == (2, 0)
    assert (transfer["messages"], transfer["tokens"]) == (5, tokens)
    expected = numpy_loss(start, soft_labels, BATCH)
    np.testing.assert_allclose(transfer["soft_loss_first"], expected, rtol=1e-5)
    assert output.metrics["client_work"] == {"train": {"tokens": 14}}
    assert output.metrics["finalizer"] == {"update_non_finite": 0}


def test_client_whose_model_equals_the_servers_changes_nothing():
    server = tiny_model(0)
    process = process_of(server, [BATCH] * 5)
    output = process.next(process.initialize(), [weights_of(server)])
    learned = server_weights(process, output.state)
    for weight, expected in zip(learned, weights_of(server), strict=True):
        np.testing.assert_allclose(weight, expected, atol=2e-6)


def test_soft_labels_of_a_uniform_model():
    """A model whose weights are zeros gives each of V words the probability 1 / V."""
    server, uniform = tiny_model(0, scale=1.0), tiny_model(0, scale=0.0)
    process = process_of(server, [BATCH] * 10)
    transfer = process.next(process.initialize(), [weights_of(uniform)]).metrics["transfer"]
    expected = -np.mean(np.log(probabilities(float64_weights(server), BATCH)))
    np.testing.assert_allclose(transfer["soft_loss_first"], expected, rtol=1e-5)
    # The loss is never below the entropy of the soft labels, log V.
    assert np.log(VOCABULARY) < transfer["soft_loss_last"] < transfer["soft_loss_first"]
    process = process_of(uniform)
    output = process.next(process.initialize(), [weights_of(uniform)])
    np.testing.assert_allclose(
        output.metrics["transfer"]["soft_loss_first"], np.log(VOCABULARY), rtol=1e-6
    )
    for weight in server_weights(process, output.state):
        np.testing.assert_array_equal(weight, 0)


@pytest.mark.slow
def test_the_server_moves_towards_its_only_client():
    server, client = tiny_model(0), weights_of(tiny_model(1))
    process = process_of(server, [BATCH] * 20, clip_norm=1.0)
    state, divergences = process.initialize(), []
    for _ in range(4):
        divergences.append(divergence(client, server_weights(process, state), BATCH))
        output = process.next(state, [client])
        state = output.state
        transfer = output.metrics["transfer"]
        assert transfer["soft_loss_last"] < transfer["soft_loss_first"]
    assert divergences == sorted(divergences, reverse=True)
    assert divergences[-1] < 0.3 * divergences[0]
    # The loss is the client's entropy plus the divergence, so it is never below the entropy.
    p = probabilities([np.float64(w) for w in client], BATCH)
    assert transfer["soft_loss_last"] > -np.mean(np.sum(p * np.log(p), axis=1))


def test_soft_loss_is_reported_for_the_first_and_last_tenth():
    rng = np.random.default_rng(5)
    text = [random_batch(rng, batch=2, longest=5, vocabulary=VOCABULARY) for _ in range(25)]
    server, client = tiny_model(0), tiny_model(1)
    process = process_of(server, text, learning_rate=1e-12)  # so that the weights stay the same
    transfer = process.next(process.initialize(), [weights_of(client)]).metrics["transfer"]
    weights, teacher = float64_weights(server), float64_weights(client)

    def mean_loss(steps):
        losses, tokens = zip(
            *(
                (numpy_loss(weights, probabilities(teacher, b), b), np.count_nonzero(b[:, 1:]))
                for b in steps
            ),
            strict=True,
        )
        return np.dot(losses, tokens) / np.sum(tokens)

    np.testing.assert_allclose(transfer["soft_loss_first"], mean_loss(text[:2]), rtol=1e-5)
    np.testing.assert_allclose(transfer["soft_loss_last"], mean_loss(text[-2:]), rtol=1e-5)
    assert transfer["messages"] == 50


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cifg", "gru", "lstm2"])
def test_a_round_is_a_function_of_state_and_data(name):
    server = tiny_model(0, name=name)
    clients = [weights_of(tiny_model(seed, name=name)) for seed in (1, 2, 3)]
    process = process_of(server, [BATCH] * 3)
    first = process.next(process.initialize(), clients)
    second = process.next(first.state, clients[:1])
    before = digest(first.state)
    again = process_of(tiny_model(9, name=name), [BATCH] * 3).next(first.state, clients[:1])
    assert digest(again.state) == digest(second.state)
    assert again.metrics == second.metrics
    assert digest(first.state) == before
    assert digest(process.next(process.initialize(), clients).state) == before
    assert (int(first.state.rounds), int(second.state.rounds)) == (1, 2)


@pytest.mark.slow
def test_larger_products_repeat_to_the_bit():
    """Large enough for TensorFlow to share one matrix product among threads."""
    options = {"vocabulary_size": 2000, "units": 96, "embedding_size": 64}
    server, *clients = (build_model("cifg", seed=seed, **options) for seed in range(3))
    rng = np.random.default_rng(0)
    text = [random_batch(rng, batch=32, longest=20, vocabulary=2000) for _ in range(3)]
    models = [weights_of(client) for client in clients]
    states = set()
    for _ in range(3):
        process = process_of(server, text)
        states.add(digest(process.next(process.initialize(), models).state))
    assert len(states) == 1


def nan_weights(model):
    weights = weights_of(model)
    weights[2][0, 0] = np.nan
    return weights


@pytest.mark.slow
@pytest.mark.parametrize("broken", [None, nan_weights(tiny_model(5))], ids=["refused", "nan"])
def test_a_broken_client_is_left_out(broken):
    process = process_of(tiny_model(0))
    good = [weights_of(tiny_model(seed)) for seed in (1, 2)]
    expected = process.next(process.initialize(), good)
    output = process.next(process.initialize(), [good[0], broken, good[1]])
    assert digest(output.state) == digest(expected.state)
    assert output.metrics["transfer"]["clients"] == 2
    assert output.metrics["transfer"]["clients_dropped"] == 1


@pytest.mark.parametrize("cohort", [[], [None, None]], ids=["empty", "broken"])
def test_a_round_without_models_changes_nothing_but_the_counter(cohort):
    process = process_of(tiny_model(0))
    state = process.initialize()
    output = process.next(state, cohort)
    assert digest(output.state.process) == digest(state.process)
    assert int(output.state.rounds) == 1
    row = release.flatten_metrics(output.metrics)
    assert best_round.is_rejected(row)
    assert row["transfer/clients"] == row["transfer/tokens"] == 0
    assert row["transfer/clients_dropped"] == len(cohort)
    assert np.isnan(row["transfer/soft_loss_first"])
    assert row["client_work/train/tokens"] == 7 * len(cohort)


@pytest.mark.slow
def test_a_server_that_diverges_keeps_its_weights():
    process = process_of(tiny_model(0), [BATCH] * 3, learning_rate=1e38)
    state = process.initialize()
    output = process.next(state, [weights_of(tiny_model(1))])
    assert digest(output.state.process) == digest(state.process)
    assert best_round.is_rejected(release.flatten_metrics(output.metrics))


# The text of the server's training.


# Large learning rates, so that few steps of the clients change the server visibly.
LOCAL_TRAINING = [
    "client.batch_size=4",
    "client.learning_rate=5.0",
    "client.gradient_clip_norm=5.0",
]


def run_config(*overrides):
    settings = [
        "fine_tuning.server.type=transfer",
        "fine_tuning.general_store=general",
        "fine_tuning.server.messages=6",
        "fine_tuning.server.batch_size=4",
        "data.max_length=5",
        *LOCAL_TRAINING,
        f"model.units={UNITS}",
        f"model.embedding_size={DIM}",
        "train.seed=8",
    ]
    return config_lib.loads("", [*settings, *overrides])


class FakeStore:
    """Three clients with four messages each; no two messages are equal."""

    def all_messages(self, population):
        assert population == "train"
        return [np.array([OOV + client, 4 + i], np.int32) for client in range(3) for i in range(4)]


def transfer_text_of(config, store):
    return build_transfer_text(
        config.fine_tuning.server, store, max_length=config.data.max_length, seed=config.train.seed
    )


def rows_of(text):
    return [tuple(row[row != PAD].tolist()) for batch in text for row in batch]


def test_general_text_is_drawn_anew_every_round():
    store, model = FakeStore(), tiny_model(0)
    corpus = {(BOS, *message.tolist(), EOS) for message in store.all_messages("train")}
    text = transfer_text_of(run_config(), store)
    rounds = [rows_of(text(round_num, model)) for round_num in range(1, 6)]
    for rows in rounds:
        assert len(rows) == len(set(rows)) == 6
        assert set(rows) <= corpus
    assert len({tuple(sorted(rows)) for rows in rounds}) > 1
    assert set().union(*rounds) == corpus
    again = transfer_text_of(run_config(), store)
    assert rows_of(again(3, tiny_model(1))) == rounds[2]
    other_seed = transfer_text_of(run_config("train.seed=9"), store)
    assert rows_of(other_seed(3, model)) != rounds[2]
    assert [len(batch) for batch in text(1, model)] == [4, 2]
    two_epochs = transfer_text_of(run_config("fine_tuning.server.epochs=2"), store)
    assert sorted(rows_of(two_epochs(3, model))) == sorted(2 * rounds[2])
    all_messages = transfer_text_of(run_config("fine_tuning.server.messages=99"), store)
    assert sorted(rows_of(all_messages(1, model))) == sorted(corpus)


@pytest.mark.slow
def test_generated_text_is_written_by_the_servers_model():
    config = run_config("fine_tuning.server.text=generated", "fine_tuning.server.messages=40")
    text, model = transfer_text_of(config, None), tiny_model(0)
    rows = rows_of(text(1, model))
    assert len(rows) == 40
    for bos, *rest in rows:
        assert bos == BOS
        assert len(rest) <= 5
        words = rest[:-1] if rest[-1] == EOS else rest
        assert len(words) == 5 or rest[-1] == EOS
        assert min(words) >= NUM_SPECIAL
    assert rows_of(transfer_text_of(config, None)(1, model)) == rows
    assert rows_of(text(2, model)) != rows
    # A model that nearly always predicts word 6.
    table, *rest = (np.zeros_like(w) for w in weights_of(model))
    rest[2][2 * UNITS :] = 20.0  # the output gate is open
    rest[2][:UNITS], rest[2][UNITS : 2 * UNITS] = 20.0, 20.0
    rest[3][:, 0], table[6, 0] = 10.0, 10.0
    model.set_weights([table, *rest])
    assert {word for row in rows_of(text(1, model)) for word in row[1:]} <= {6, EOS}


def test_general_text_needs_a_general_store():
    with pytest.raises(config_lib.ConfigError, match=r"`fine_tuning\.general_store`"):
        run_config("fine_tuning.general_store=")
    with pytest.raises(ValueError, match=r"fine_tuning\.general_store"):
        transfer_text_of(run_config(), None)


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("client.type=fedsgd", "client.type"),
        ("client.schedule.warmup_rounds=3", "client.schedule"),
        ("server.type=fedadam", "server"),
        ("aggregation.rule.type=fedatt", "aggregation.rule.type"),
        ("aggregation.compression.type=uniform_quantization", "aggregation.compression.type"),
        ("aggregation.row_correction.type=fedsubavg", "aggregation.row_correction.type"),
        ("aggregation.client_noise.type=normal", "aggregation.client_noise.type"),
        ("aggregation.protection.type=adaptive", "aggregation.protection.type"),
        ('aggregation.protection={type="off", zeroing=true}', "aggregation.protection.zeroing"),
        ("execution.engine=ray", "execution.engine"),
    ],
)
def test_options_that_transfer_ignores_are_rejected(override, key):
    transfer = "fine_tuning.server={type='transfer', text='generated'}"
    with pytest.raises(config_lib.ConfigError, match=f"`{key}` .*`fine_tuning.server.type`"):
        config_lib.loads("", [transfer, override])


def test_privacy_is_rejected():
    with pytest.raises(config_lib.ConfigError, match=r"`aggregation\.privacy\.type` = 'gaussian'"):
        run_config("aggregation.privacy.type=gaussian", "aggregation.client_weighting=uniform")


def test_table_of_a_run_with_averaging_does_not_change_its_noise_key():
    """The key depends on these facts, and runs of earlier versions recorded no such table."""
    averaging = numerics_config(config_lib.to_dict(config_lib.loads("")))
    assert averaging["fine_tuning"].keys() == {"general_store", "user_weight", "method"}
    transfer = numerics_config(config_lib.to_dict(run_config()))
    assert transfer["fine_tuning"]["server"]["messages"] == 6


# With TFF's clients.


def client_batches(seed, messages=6):
    rng = np.random.default_rng(seed)
    texts = [rng.integers(OOV, VOCABULARY, size=rng.integers(1, 6)) for _ in range(messages)]
    return batches.client_batches(
        texts, batch_size=4, max_length=5, max_examples=0, epochs=1, seed=(seed,)
    )


def client_dataset(seed, messages=6):
    return batches.batches_dataset(client_batches(seed, messages))


def transformed(process):
    """Wraps the process of clients as a training of the config does."""
    with pytest.warns(UserWarning, match="simulation only"):
        transforms = process_transforms.round_transforms(
            run_config(), tiny_model(0), None, FakeStore()
        )
    return chain(process, transforms)


@pytest.fixture(scope="module")
def federated():
    """The process of a config, built once, because compiling it takes longest."""
    return transformed(build_process(run_config(), tiny_model(0)))


@pytest.mark.slow
def test_teachers_are_the_separately_trained_clients(federated):
    datasets = [client_dataset(seed) for seed in (1, 2, 3)]
    output = federated.next(federated.initialize(), datasets)

    one_client = config_lib.loads(
        "",
        [
            *LOCAL_TRAINING,
            f"model.units={UNITS}",
            f"model.embedding_size={DIM}",
            "server.type=fedavg",
            "aggregation.client_weighting=uniform",
            "aggregation.protection.type=off",
        ],
    )
    averaging = build_process(one_client, tiny_model(0))
    sent = []
    for dataset in datasets:
        trained = averaging.next(averaging.initialize(), [dataset])
        sent.append(averaging.get_model_weights(trained.state).trainable)
    text = transfer_text_of(run_config(), FakeStore())(1, tiny_model(0))
    expected = process_of(tiny_model(0), text, learning_rate=0.5, clip_norm=1.0)
    expected_state = expected.next(expected.initialize(), sent).state
    weights = server_weights(federated, output.state)
    for weight, value in zip(weights, server_weights(expected, expected_state), strict=True):
        np.testing.assert_allclose(weight, value, atol=1e-5)
    start = server_weights(federated, federated.initialize())
    assert max(np.abs(a - b).max() for a, b in zip(weights, start, strict=True)) > 1e-3

    row = release.flatten_metrics(output.metrics)
    assert row["transfer/clients"] == 3
    targets = [np.count_nonzero(b["y"]) for d in datasets for b in d.as_numpy_iterator()]
    assert row["client_work/train/tokens"] == sum(targets)
    assert row["client_work/train/nll"] > 0
    assert not best_round.is_rejected(row)


@pytest.mark.slow
def test_every_pack_has_one_client(federated):
    """With several clients in a pack, the server would learn from the mean of their models."""
    clients = [client_batches(seed) for seed in (1, 2, 3)]
    config = run_config("execution.clients_per_pack=3")
    prepared = prepare_process(
        build_process(config, tiny_model(0), joined=True),
        clients_per_pack=process_transforms.clients_per_pack(config),
    )
    process = transformed(prepared.process)
    packs = prepared.batcher(clients, [1, 1, 1])
    output = process.next(process.initialize(), packs)
    assert output.metrics["transfer"]["clients"] == len(packs) == 3
    datasets = [client_dataset(seed) for seed in (1, 2, 3)]
    expected = federated.next(federated.initialize(), datasets)
    for weight, value in zip(
        server_weights(process, output.state),
        server_weights(federated, expected.state),
        strict=True,
    ):
        np.testing.assert_allclose(weight, value, atol=1e-6)


@pytest.mark.slow
def test_checkpoints_keep_the_round_and_every_bit(federated, tmp_path):
    datasets = [client_dataset(seed) for seed in (1, 2)]
    state = federated.next(federated.initialize(), datasets).state
    manager = checkpoints.CheckpointManager(tmp_path)
    asyncio.run(manager.save(state, 1))
    restored, version = asyncio.run(manager.load_latest(federated.initialize()))
    assert version == restored.rounds == 1
    assert digest(restored) == digest(state)
    expected, output = (federated.next(s, datasets) for s in (state, restored))
    assert digest(output.state) == digest(expected.state)
    assert output.metrics == expected.metrics
    assert output.state.rounds == 2


@pytest.mark.slow
def test_clients_without_text_and_empty_cohorts(federated):
    state = federated.initialize()
    expected = federated.next(state, [client_dataset(1)])
    output = federated.next(state, [client_dataset(1), client_dataset(2, messages=0)])
    assert digest(output.state) == digest(expected.state)
    assert output.metrics["transfer"]["clients_dropped"] == 1
    empty = federated.next(state, [])
    assert empty.metrics["finalizer"]["update_non_finite"] == 1
    assert empty.metrics["client_work"]["train"]["tokens"] == 0
    assert digest(empty.state.process) == digest(state.process)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*simulation only")
@pytest.mark.parametrize("text", ["generated", "general"])
def test_killed_training_resumes_to_the_bit(store, tmp_path, text, monkeypatch):
    config = tiny_config(
        store,
        "fine_tuning.server.type=transfer",
        "fine_tuning.server.messages=40",
        f"fine_tuning.server.text={text}",
        f"fine_tuning.general_store={store}",
        "execution.clients_per_pack=2",
    )
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    print_round = RoundLines.__call__

    def print_round_and_copy(lines, done, *note):
        print_round(lines, done, *note)
        if done.round_num == 2:
            shutil.copytree(straight, killed)  # as a kill after round 2 leaves the run

    with monkeypatch.context() as patch:
        patch.setattr(RoundLines, "__call__", print_round_and_copy)
        train_federated(config, straight)
    train_federated(config, killed)
    assert_same_run(straight, killed)
    rows = RunDirectory(straight).rows()
    assert [row["transfer/clients"] for row in rows] == [3, 3, 3]
    assert all(row["transfer/messages"] == 40 and row["rejected"] == 0 for row in rows)
    for row in rows:  # three rounds are too few to see that the server learns
        for end in ("first", "last"):
            assert 0 < row[f"transfer/soft_loss_{end}"] < np.log(10_000)
