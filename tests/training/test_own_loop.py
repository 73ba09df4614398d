"""A loop of the user's own process: the run directory, exact resume, validation, and refusals."""

import json
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_keyboard as tk
from tasks.evaluate import evaluate as evaluate_task
from tasks.evaluate import report as report_task
from tasks.phone import export as export_task
from tasks.train import train as train_task
from tff_keyboard.command_line import cli
from tff_keyboard.storage.errors import ConfigError, RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory

SIZES = {"units": 6, "embedding_size": 4}
TABLES = {
    "train": {"checkpoint_every": 1},
    "client": {"batch_size": 4, "max_examples": 8},
    "data": {"max_length": 8},
    "evaluation": {"every": 2},
}
SGD = tff.learning.optimizers.build_sgdm
DATASET_ITERATOR = tff.learning.LoopImplementation.DATASET_ITERATOR


def build(size):
    """Returns TFF's own FedAvg of our CIFG, and the model."""
    model_fn = tk.models.build_model_fn("cifg", vocabulary_size=size, seed=1, **SIZES)
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, client_optimizer_fn=SGD(0.5), loop_implementation=DATASET_ITERATOR
    )
    return process, tk.models.build_model("cifg", vocabulary_size=size, seed=1, **SIZES)


def train(clients, workdir, rounds, size, **options):
    process, model = build(size)
    return tk.training.train(
        process,
        clients,
        workdir,
        model=model,
        rounds=rounds,
        clients_per_round=3,
        **{"tables": TABLES, **options},
    )


def files_of(run_dir):
    run = RunDirectory(run_dir)
    with np.load(run.weights) as arrays:
        return dict(arrays), run.metrics_jsonl.read_text()


def assert_equal_runs(one, other):
    (weights, metrics), (other_weights, other_metrics) = files_of(one), files_of(other)
    assert metrics == other_metrics
    for name, values in weights.items():
        np.testing.assert_array_equal(values, other_weights[name], err_msg=name)


@pytest.mark.slow
def test_a_process_on_a_store(store, tmp_path, capsys):
    size = len(tk.data.ClientStore(store).vocabulary)
    row = train(store, tmp_path / "whole", 4, size)
    assert row["round"] == 4
    assert row["evaluation/perplexity"] < size
    train(store, tmp_path / "parts", 2, size)
    shutil.copytree(tmp_path / "parts", tmp_path / "other")
    train(store, tmp_path / "parts", 4, size)
    assert_equal_runs(tmp_path / "whole", tmp_path / "parts")
    with pytest.raises(RunDirectoryError, match=r"client\.batch_size"):
        train(
            store,
            tmp_path / "other",
            4,
            size,
            tables=TABLES | {"client": {"batch_size": 5, "max_examples": 8}},
        )
    capsys.readouterr()
    assert cli.launch(evaluate_task, [str(tmp_path / "whole")]) == cli.OK
    assert cli.launch(report_task, [str(tmp_path / "whole")]) == cli.OK
    assert "privacy_ledger" not in " ".join(path.name for path in (tmp_path / "whole").iterdir())
    config = tmp_path / "whole" / "config.toml"
    arguments = [f"--config={config}", f"--workdir={tmp_path / 'again'}"]
    capsys.readouterr()
    assert cli.launch(train_task, arguments) == 2
    assert "was passed to" in capsys.readouterr().err
    loaded, _ = tk.models.load_model(tmp_path / "whole")
    assert loaded.name_in_registry == "cifg"


def test_a_process_with_other_input_leaves_no_run(store, tmp_path):
    def model_fn():
        layers = [tf.keras.layers.InputLayer([2]), tf.keras.layers.Dense(1)]
        return tff.learning.models.from_keras_model(
            tf.keras.Sequential(layers),
            loss=tf.keras.losses.MeanSquaredError(),
            input_spec=(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])),
        )

    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn, client_optimizer_fn=SGD(0.5), loop_implementation=DATASET_ITERATOR
    )
    _, model = build(len(tk.data.ClientStore(store).vocabulary))
    with pytest.raises(ConfigError, match="but the batches of a client store are"):
        tk.training.train(
            process, store, tmp_path / "run", model=model, rounds=1, clients_per_round=2
        )
    assert not (tmp_path / "run").exists()


TEXTS = {
    "ann": ["see you later", "see you there", "see you at the station"],
    "bob": ["later then", "see you then", "at the station"],
    "cem": ["see you later", "are you there", "there then"],
    "dan": ["see you at the station", "see you later then"],
    "eve": ["later", "see you there then", "are you at the station"],
}


def client_data(names):
    texts = {name: {"text": TEXTS[name]} for name in names}
    return tff.simulation.datasets.TestClientData(texts)


@pytest.mark.slow
def test_a_process_on_client_data(tmp_path, capsys):
    people, held_out = client_data(["ann", "bob", "cem"]), client_data(["dan", "eve"])
    words = tk.data.client_data_vocabulary(people, feature="text", size=100)
    batches = tk.data.client_data_batches(people, words, feature="text", batch_size=2, max_length=8)
    options = {"vocabulary": words, "tables": {"evaluation": {"every": 2}}, "validate": held_out}
    row = train(batches, tmp_path / "whole", 4, len(words), **options)
    assert 0 < row["evaluation/recall_at_3_no_eos"] <= 1
    train(batches, tmp_path / "parts", 2, len(words), **options)
    train(batches, tmp_path / "parts", 4, len(words), **options)
    assert_equal_runs(tmp_path / "whole", tmp_path / "parts")
    assert "Next: tff-keyboard report" in capsys.readouterr().out  # `evaluate` would need text
    assert cli.launch(evaluate_task, [str(tmp_path / "whole")]) == 3
    assert "trained on client data of a program" in capsys.readouterr().err
    exported = tmp_path / "keyboard.tflite"
    arguments = [str(tmp_path / "whole"), f"--out={exported}", "--no-parity"]
    assert cli.launch(export_task, arguments) == cli.OK
    (card,) = tmp_path.glob("*.md")
    assert "train clients: 3" in card.read_text()
    seen = []

    def validate(weights):
        seen.append(len(weights.trainable))
        return {"recall_at_1_no_eos": float(len(seen))}

    row = train(batches, tmp_path / "own", 4, len(words), **options | {"validate": validate})
    assert row["evaluation/recall_at_1_no_eos"] == 2
    model = tk.models.load_model(tmp_path / "own")[0]
    assert len(model.trainable_variables) == seen[0]
    card = json.loads((tmp_path / "own" / "data_card.json").read_text())
    assert card["populations"]["train"]["clients"] == 3
    assert "ann" not in json.dumps(card)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tables": {"server": {"type": "fedavg"}}}, r"\[server\], which has no effect"),
        ({"tables": {"train": {"round": 3}}}, r"Unknown key `train.round`"),
        ({"tables": {"train": {"best_metric": "loss"}}}, r"`train.best_metric` must be one of"),
    ],
)
def test_bad_arguments_leave_no_run(store, tmp_path, changes, words):
    size = len(tk.data.ClientStore(store).vocabulary)
    with pytest.raises(ConfigError, match=words):
        train(store, tmp_path / "run", 2, size, **changes)
    with pytest.raises(ConfigError, match=f"{size + 1} output rows, but the vocabulary has {size}"):
        train(store, tmp_path / "run", 2, size + 1)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("train", "client_sampling", "proportional"),
        ("train", "max_sampling_ratio", 2.0),
        ("client", "batch_size", 4),
        ("client", "max_examples", 8),
        ("client", "epochs", 2),
        ("data", "long_messages", "truncate"),
        ("evaluation", "clients", 1),
        ("evaluation", "max_examples", 1),
        ("evaluation", "batch_size", 1),
    ],
)
def test_keys_without_effect_on_client_data_are_refused(tmp_path, table, key, value):
    people, held_out = client_data(["ann", "bob", "cem"]), client_data(["dan", "eve"])
    words = tk.data.client_data_vocabulary(people, feature="text", size=100)
    options = {"vocabulary": words, "validate": held_out, "tables": {table: {key: value}}}
    with pytest.raises(ConfigError, match=rf"`{table}\.{key}` has no effect on `ClientData`"):
        train(people, tmp_path / "run", 2, len(words), **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_an_excluded_client_of_client_data_is_in_no_cohort(tmp_path):
    people, held_out = client_data(["ann", "bob", "cem"]), client_data(["dan", "eve"])
    words = tk.data.client_data_vocabulary(people, feature="text", size=100)
    batches = tk.data.client_data_batches(people, words, feature="text", batch_size=2, max_length=8)
    without_bob = tk.data.client_data_batches(
        client_data(["ann", "cem"]), words, feature="text", batch_size=2, max_length=8
    )
    options = {"vocabulary": words, "validate": held_out}
    table = {"train": {"excluded_client": 1}}
    excluded = train(batches, tmp_path / "excluded", 1, len(words), tables=table, **options)
    process, model = build(len(words))
    alone = tk.training.train(
        process,
        without_bob,
        tmp_path / "alone",
        model=model,
        rounds=1,
        clients_per_round=2,
        **options,
    )
    assert excluded["clients_selected"] == 3
    assert excluded["clients"] == 2
    names = ("clients", "train/loss", "evaluation/perplexity")
    names = [name for name in names if name in alone]
    assert len(names) >= 2
    np.testing.assert_allclose(
        [excluded[name] for name in names], [alone[name] for name in names], rtol=1e-6
    )


def test_client_data_needs_a_vocabulary_and_a_validation(tmp_path):
    people = client_data(["ann", "bob", "cem"])
    words = tk.data.client_data_vocabulary(people, feature="text", size=100)
    with pytest.raises(ConfigError, match="`vocabulary` is missing"):
        train(people, tmp_path / "run", 2, len(words))
    with pytest.raises(ConfigError, match="`validate` is missing"):
        train(people, tmp_path / "run", 2, len(words), vocabulary=words, tables={})
