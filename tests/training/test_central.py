"""Central training: steps against plain SGD, budget, resume, and starting from a saved model."""

import collections
import dataclasses
import json
import math
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tasks.train import train_server as train_server_task
from tests.support import fakes
from tff_keyboard.algorithms.central_training import CentralTraining
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.algorithms.optimizers.optimizers import build_client_optimizer
from tff_keyboard.algorithms.registry.fedavg import FedAvgClient
from tff_keyboard.command_line import cli
from tff_keyboard.config import ConfigError
from tff_keyboard.data.preparing.prepare import prepare as prepare_store
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import PAD
from tff_keyboard.models import build_model
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.storage.errors import RunDirectoryError, SavedModelError
from tff_keyboard.training.build import build_initial_model
from tff_keyboard.training.central import budget_of, build_pooled, train_central
from tff_keyboard.training.federated import train_federated


def tiny_config(store, *overrides):
    return fakes.tiny_config(store, "client.batch_size=4", "train.rounds=4", *overrides)


@pytest.fixture(scope="module")
def finished(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "straight"
    train_central(tiny_config(store), path)
    return path


def test_steps_are_those_of_sgd_with_momentum():
    def fresh():
        return build_model("cifg", vocabulary_size=11, seed=2, units=5, embedding_size=3)

    rng = np.random.default_rng(0)
    batches = [rng.integers(4, 11, size=[3, 6]).astype(np.int32) for _ in range(4)]
    batches[1][0, 4:] = PAD
    model = fresh()
    velocity = [np.zeros(v.shape) for v in model.trainable_variables]
    total, norms = 0.0, []
    for batch in batches:
        x, y = batch[:, :-1], batch[:, 1:]
        with tf.GradientTape() as tape:
            log_p = tf.nn.log_softmax(model(x))
            losses = -tf.gather(log_p, y, batch_dims=2)[y != PAD]
            loss = tf.reduce_mean(losses)
        total += float(tf.reduce_sum(losses))
        gradients = [
            tf.convert_to_tensor(g).numpy() for g in tape.gradient(loss, model.trainable_variables)
        ]
        norm = math.sqrt(sum(np.sum(g.astype(np.float64) ** 2) for g in gradients))
        norms.append(norm)
        for i, v in enumerate(model.trainable_variables):
            velocity[i] = 0.9 * velocity[i] + gradients[i] * min(1, 0.1 / norm)
            v.assign(v - 0.3 * velocity[i])
    assert min(norms) < 0.1 < max(norms)  # some gradients were clipped, some not

    sgd = FedAvgClient(learning_rate=0.3, momentum=0.9, gradient_clip_norm=0.1)
    process = CentralTraining(fresh(), build_client_optimizer(sgd))
    state, nll = process.initialize(), 0.0
    for part in (batches[:2], batches[2:]):  # the velocity goes on from round to round
        output = process.next(state, part)
        state = output.state
        nll += output.metrics["client_work"]["train"]["nll"]
    for found, expected in zip(state.weights, model.trainable_variables, strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)
    assert output.metrics["client_work"]["train"]["tokens"] == 30
    assert output.metrics["finalizer"]["update_non_finite"] == 0
    np.testing.assert_allclose(nll, total, rtol=1e-4)


def test_without_forgetting_the_initial_model_stays_the_teacher():
    """Eqs. 1-2 of Popov et al. 2018 over two rounds; the second begins in another process."""
    rng, weight = np.random.default_rng(1), 0.25
    initial = [
        rng.normal(size=w.shape).astype(np.float32)
        for w in build_model(
            "cifg", vocabulary_size=11, seed=2, units=5, embedding_size=3
        ).get_weights()
    ]

    def fresh(weights=initial):
        model = build_model("cifg", vocabulary_size=11, seed=2, units=5, embedding_size=3)
        model.set_weights(weights)
        return model

    batches = [rng.integers(4, 11, size=[3, 6]).astype(np.int32) for _ in range(4)]
    model, teacher = fresh(), fresh()
    for batch in batches:
        x, y = batch[:, :-1], batch[:, 1:]
        soft = tf.nn.softmax(teacher(x))
        with tf.GradientTape() as tape:
            log_p = tf.nn.log_softmax(model(x))
            kept = -tf.reduce_sum(soft * log_p, axis=2)
            true = -tf.gather(log_p, y, batch_dims=2)
            loss = tf.reduce_mean(weight * true + (1 - weight) * kept)
        for v, gradient in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            v.assign_sub(0.3 * tf.convert_to_tensor(gradient))
    sgd = FedAvgClient(learning_rate=0.3, gradient_clip_norm=0.0)
    first = CentralTraining(fresh(), build_client_optimizer(sgd), fresh(), weight)
    zeros = [np.zeros_like(w) for w in initial]
    second = CentralTraining(fresh(zeros), build_client_optimizer(sgd), fresh(zeros), weight)
    state = second.next(first.next(first.initialize(), batches[:2]).state, batches[2:]).state
    for found, expected in zip(state.weights, model.trainable_variables, strict=True):
        np.testing.assert_allclose(found, expected.numpy(), rtol=1e-4, atol=1e-6)


def test_a_round_that_diverges_changes_nothing():
    model = build_model("cifg", vocabulary_size=11, seed=2, units=5, embedding_size=3)
    optimizer = build_client_optimizer(FedAvgClient(learning_rate=1e30, gradient_clip_norm=0.0))
    process = CentralTraining(model, optimizer)
    state = process.initialize()
    batch = np.array([[1, 4, 5, 6], [1, 7, 8, 2]], np.int32)
    output = process.next(state, [batch, batch, batch])
    assert output.metrics["finalizer"]["update_non_finite"] == 1
    assert output.state is state


def test_rounds_go_through_every_message_once_an_epoch(store):
    client_store = ClientStore(store)
    pooled = build_pooled(tiny_config(store), client_store)
    total = int(client_store.num_messages("train").sum())
    rounds = -(-total // pooled.messages_per_round)
    rows, tokens = [], 0
    for round_num in range(1, rounds + 1):
        round_batches, facts = pooled.round_input(round_num)
        rows.extend(tuple(row[row != PAD]) for batch in round_batches for row in batch)
        assert facts["examples"] == pooled.messages_per_round == 24
        tokens += facts["tokens"]
    longest = tiny_config(store).data.max_length
    everything = [
        (1, *map(int, message), 2)[: longest + 1]
        for client in client_store.client_ids("train")
        for message in client_store.messages("train", client)
    ]
    assert len(rows) == rounds * 24
    counts = {row: rows.count(row) - everything.count(row) for row in set(everything)}
    assert min(counts.values()) >= 0  # each was there; the rest is the start of the next epoch
    assert sum(counts.values()) == rounds * 24 - total
    assert pooled.rounds_for(pooled.tokens_per_epoch) == rounds
    assert abs(tokens - pooled.tokens_per_epoch) < 0.2 * pooled.tokens_per_epoch


def test_rehearsal_adds_general_messages_to_each_round(store):
    client_store, config = ClientStore(store), tiny_config(store)
    plain = build_pooled(config, client_store)
    mixed = build_pooled(config, client_store, Rehearsal(client_store, 0.75))

    def rows(found):
        return collections.Counter(tuple(row[row != PAD]) for batch in found for row in batch)

    total = 0
    for round_num in (1, 2, 9):
        made, facts = mixed.round_input(round_num)
        own, own_facts = plain.round_input(round_num)
        assert not rows(own) - rows(made)
        assert sum(rows(made).values()) == facts["examples"] == 4 * own_facts["examples"]
        assert facts["tokens"] == sum(int(np.count_nonzero(batch[:, 1:])) for batch in made)
        assert facts["epochs"] == own_facts["epochs"]
        total += facts["tokens"]
    assert rows(mixed.round_input(1)[0]) - rows(plain.round_input(1)[0]) != rows(
        mixed.round_input(2)[0]
    ) - rows(plain.round_input(2)[0])
    a_round = mixed.tokens_per_epoch * 24 / client_store.num_messages("train").sum()
    assert total / 3 == pytest.approx(a_round, rel=0.1)
    assert mixed.rounds_for(mixed.tokens_per_epoch) == plain.rounds_for(plain.tokens_per_epoch)


def test_teacher_must_be_trained(store, tmp_path):
    with pytest.raises(ConfigError, match=r"'lwf' requires `model\.initial_model`"):
        train_central(tiny_config(store, "fine_tuning.method.type=lwf"), tmp_path / "run")


def test_a_round_is_a_function_of_its_number(store):
    first, second = (build_pooled(tiny_config(store), ClientStore(store)) for _ in range(2))
    second.round_input(1)
    for a, b in zip(first.round_input(7)[0], second.round_input(7)[0], strict=True):
        np.testing.assert_array_equal(a, b)


def test_writes_files_of_other_tasks(finished):
    rows = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == [1, 2, 3, 4]
    assert "evaluation/recall_at_1_no_eos" in rows[-1]
    model, vocabulary = load_model(finished)
    assert model.vocabulary_size == len(vocabulary)
    nats = [row["client_work/train/nll"] / row["client_work/train/tokens"] for row in rows]
    assert nats[-1] < nats[0]


def test_stop_and_resume_is_bit_identical(store, finished, tmp_path):
    train_central(tiny_config(store, "train.rounds=2"), tmp_path / "run")
    train_central(tiny_config(store), tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").read_bytes() == (
        finished / "metrics.jsonl"
    ).read_bytes()
    first, second = (load_model(path)[0].get_weights() for path in (finished, tmp_path / "run"))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_budget_of_another_run(store, finished, tmp_path):
    tokens = budget_of(finished).tokens
    arguments = [f"--like={finished}", f"--workdir={tmp_path / 'twin'}", "--set=train.seed=2"]
    assert cli.launch(train_server_task, arguments) == cli.OK
    found = budget_of(tmp_path / "twin").tokens
    assert abs(found - tokens) < 0.3 * tokens  # to a round


def part_of(finished, path, initial_model, store_sha256=None):
    """A finished run that began with a model."""
    shutil.copytree(finished, path)
    config = path / "config.toml"
    text = config.read_text()
    assert 'initial_model = ""' in text
    config.write_text(text.replace('initial_model = ""', f'initial_model = "{initial_model}"'))
    if store_sha256:
        card = path / "data_card.json"
        card.write_text(json.dumps({**json.loads(card.read_text()), "store_sha256": store_sha256}))
    return path


def test_budget_adds_up_parts_on_the_same_clients(store, finished, tmp_path):
    tokens = budget_of(finished).tokens
    second = part_of(finished, tmp_path / "second", finished / "model")
    third = part_of(finished, tmp_path / "third", second)
    budget = budget_of(third)
    assert budget.tokens == 3 * tokens
    assert budget.parts == (third, second, finished)
    assert budget.initial_model == ""
    twin = budget.at_the_beginning(tiny_config(store, f"model.initial_model={second}"))
    assert twin.model.initial_model == ""
    own = tiny_config(store, f"model.initial_model={tmp_path}")  # no part: it was asked for
    assert budget.at_the_beginning(own) is own

    elsewhere = part_of(finished, tmp_path / "elsewhere", finished, "another")
    tuned = part_of(finished, tmp_path / "tuned", elsewhere)
    assert budget_of(tuned).tokens == tokens
    assert budget_of(tuned).initial_model == str(elsewhere)
    circle = part_of(finished, tmp_path / "circle", tmp_path / "circle")
    assert budget_of(circle).tokens == tokens


def test_words_of_its_own_begin_as_drawn(store, finished, tmp_path, capsys):
    own = tmp_path / "own"
    config = tiny_config(own, "data.vocabulary_size=90", f"model.initial_model={finished}")
    prepare_store(dataclasses.replace(config.data, synthetic_typists=13), own)
    mine, theirs = (ClientStore(path).vocabulary for path in (own, store))
    both = set(mine.words[4:]) & set(theirs.words[4:])
    model = build_initial_model(config, mine)
    said = capsys.readouterr().out
    assert f"{finished}: {len(both)} of {len(mine) - 4} words start with its rows." in said
    before, _ = load_model(finished)
    for word in mine.words[4:]:
        row = model.embedding.numpy()[mine.id_of(word)]
        its = before.embedding.numpy()[theirs.id_of(word)]
        assert np.array_equal(row, its) == (word in both)


@pytest.mark.slow
def test_starts_from_a_saved_model(store, finished, tmp_path):
    config = tiny_config(
        store,
        f"model.initial_model={finished}",
        "client.learning_rate=1e-9",
        "train.rounds=5",
        "train.early_stop_patience=2",
        "train.best_metric=recall_at_3_no_eos",
        "evaluation.every=1",
    )
    train_central(config, tmp_path / "run")
    description = json.loads((tmp_path / "run" / "model" / "model.json").read_text())
    facts = [description.get(key) for key in ("rounds", "stopped_early", "is_start")]
    assert facts == [2, True, True]  # no round was better
    before, after = (load_model(path)[0].get_weights() for path in (finished, tmp_path / "run"))
    for a, b in zip(before, after, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_a_metric_it_does_not_measure_is_refused(store, tmp_path):
    with pytest.raises(ConfigError, match=r"best_metric.*trade_off/perplexity"):
        train_central(
            tiny_config(store, "train.best_metric=trade_off/perplexity"), tmp_path / "run"
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_general_corpus_is_measured_as_in_train(store, tmp_path):
    config = tiny_config(
        store,
        "train.rounds=1",
        f"fine_tuning.general_store={store}",
        "train.best_metric=trade_off/accuracy",
    )
    row = train_central(config, tmp_path / "run")
    for name in ("recall_at_1_no_eos", "accuracy"):
        assert 0 <= row[f"evaluation/{name}"] <= 1
        assert row[f"evaluation/general/{name}"] == row[f"evaluation/{name}"]  # the same text
        assert row[f"evaluation/trade_off/{name}"] == pytest.approx(row[f"evaluation/{name}"])


def test_a_model_that_does_not_fit_is_refused(store, finished, tmp_path):
    wrong_size = tiny_config(store, f"model.initial_model={finished}", "model.units=13")
    with pytest.raises(SavedModelError, match=r"Change section \[model\]"):
        train_central(wrong_size, tmp_path / "a")
    other = tmp_path / "other_store"
    changed = tiny_config(other, "data.lowercase=false", f"model.initial_model={finished}")
    prepare_store(changed.data, other)
    with pytest.raises(SavedModelError, match=r"`data\.lowercase`"):
        train_central(changed, tmp_path / "b")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--like=x"],
        ["--workdir=x"],
        ["--workdir=x", "--config=configs/demo.toml", "stray"],
    ],
)
def test_flags_that_do_not_fit(arguments):
    assert cli.launch(train_server_task, arguments) == cli.USAGE


@pytest.mark.slow
def test_a_private_config_is_recorded_as_not_private(store, tmp_path, capsys):
    private = (
        "aggregation.client_weighting=uniform",
        "aggregation.privacy={type='tree', noise_multiplier=5}",
        "train.min_separation_rounds=2",
        "train.clients_per_round=3",
    )
    run = tmp_path / "run"
    train_central(tiny_config(store, *private, "train.rounds=2"), run)
    assert "ignores [aggregation.privacy]" in capsys.readouterr().out
    train_central(tiny_config(store, *private, "train.rounds=3"), run)  # resumes
    with pytest.raises(RunDirectoryError, match="made no privacy claim"):
        read_ledger(run / "privacy_ledger.jsonl")
    with pytest.raises(RunDirectoryError, match=r"`aggregation\.privacy"):
        train_federated(tiny_config(store, *private, "train.rounds=3"), run)


@pytest.mark.slow
def test_central_training_is_refused_in_a_private_run(store, tmp_path):
    private = (
        "aggregation.client_weighting=uniform",
        "aggregation.privacy={type='tree', noise_multiplier=5}",
        "train.clients_per_round=3",
        "train.rounds=2",
    )
    run = tmp_path / "run"
    train_federated(tiny_config(store, *private), run)
    shutil.rmtree(run / "checkpoints")
    weights = (run / "model" / "weights.npz").read_bytes()
    with pytest.raises(RunDirectoryError, match="is a private run"):
        train_central(tiny_config(store, *private), run)
    assert (run / "model" / "weights.npz").read_bytes() == weights
