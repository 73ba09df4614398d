"""Runs with the metric of docs/own_parts.md: validation, evaluation, comparison, report, resume."""

import json

import numpy as np
import pytest
import tensorflow_federated as tff

import tff_keyboard as tk
from tasks.evaluate import compare as compare_task
from tasks.evaluate import evaluate as evaluate_task
from tasks.evaluate import report as report_task
from tests.support import own_parts_page
from tests.support.fakes import tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.run_evaluation import read_evaluation
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.storage import part_reference, trusted_code
from tff_keyboard.storage.errors import ConfigError, RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.central import train_central
from tff_keyboard.training.federated import train_federated

LETTERS = 4


@pytest.fixture(name="file", scope="module")
def _file(tmp_path_factory):
    part_reference._load.cache_clear()
    path = tmp_path_factory.mktemp("parts") / "my_parts.py"
    path.write_text(own_parts_page.code() + "\n\ndef broken(scored):\n    return scored.words\n")
    return path


def config_of(store, file, *overrides):
    table = f"{{type='{file}:long_words', min_letters={LETTERS}, label='long words'}}"
    metric = f"evaluation.metrics.long_words={table}"
    return tiny_config(store, metric, "train.best_metric=long_words", *overrides)


@pytest.fixture(name="run", scope="module")
def _run(store, file, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    train_federated(config_of(store, file, "train.rounds=2", "evaluation.every=1"), path)
    return RunDirectory(path)


def counts_by_definition(run, store, population):
    predictor = KerasPredictor(*load_model(run.path))
    client_store = ClientStore(store)
    hits, words = {}, {}
    for client in client_store.client_ids(population):
        name = client_store.pseudonym(client)
        hits[name] = words[name] = 0
        for message in client_store.words(population, client):
            for position, word in enumerate(message):
                if len(word) >= LETTERS:
                    strip = [w for w, _ in predictor.suggest(message[:position], "", 3)]
                    hits[name] += word in strip
                    words[name] += 1
    names = sorted(hits)
    return [hits[name] for name in names], [words[name] for name in names]


def test_evaluation_counts_it_for_each_client(run, store, capsys):
    assert cli.launch(evaluate_task, [str(run.path)]) == cli.OK
    evaluation = read_evaluation(run.evaluation_path("held_out"))
    hits, words = counts_by_definition(run, store, "held_out")
    np.testing.assert_array_equal(evaluation.sums["own/long_words/numerator"], hits)
    np.testing.assert_array_equal(evaluation.sums["own/long_words/denominator"], words)
    interval = evaluation.metrics["long_words"]
    assert interval.value == pytest.approx(sum(hits) / sum(words))
    assert interval.low <= interval.value <= interval.high
    (line,) = [x for x in capsys.readouterr().out.splitlines() if x.startswith("long words ")]
    assert line.split()[2] == f"{100 * interval.value:.2f}"
    source = evaluation.own_metrics["long_words"].source
    assert source["sha256"] == run.own_parts()["evaluation.metrics.long_words.type"]["sha256"]
    assert source["options"] == {"min_letters": LETTERS}


def test_the_line_of_a_validation_has_its_label(store, file, tmp_path, capsys):
    config = config_of(store, file, "train.rounds=1", "evaluation.every=1")
    train_federated(config, tmp_path / "run")
    (row,) = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    shown = f"  long words {100 * row['evaluation/long_words']:.2f} %"
    assert shown in capsys.readouterr().out


def test_the_best_round_is_chosen_by_it(run):
    values = [row["evaluation/long_words"] for row in run.all_rows()]
    assert len(values) == 2
    evaluation = tk.evaluation.evaluate_run(run.path, "validation")
    best = evaluation.metrics["long_words"].value
    assert best == pytest.approx(max(values))


def test_comparison_pairs_clients_and_report_shows_it(run, capsys, tmp_path):
    out = tmp_path / "compared"
    assert cli.launch(compare_task, [str(run.path), "unigram", f"--out={out}", "--all"]) == cli.OK
    assert "long words" in capsys.readouterr().out
    comparison = json.loads((out / "comparison.json").read_text())
    difference = comparison["differences"][0]["metrics"]["long_words"]
    assert difference["low"] <= difference["value"] <= difference["high"]
    first, second = (model["metrics"]["long_words"]["value"] for model in comparison["models"])
    assert difference["value"] == pytest.approx(second - first)
    assert cli.launch(report_task, [str(out)]) == cli.OK
    assert any("long words" in path.read_text() for path in out.glob("*.html"))


def test_resume_with_another_source_is_refused(run, store, file):
    source = file.read_text()
    try:
        file.write_text(source + "\n# another version\n")
        part_reference._load.cache_clear()
        config = config_of(store, file, "train.rounds=3", "evaluation.every=1")
        with pytest.raises(RunDirectoryError, match=r"source of `evaluation\.metrics\.long_words"):
            train_federated(config, run.path)
    finally:
        file.write_text(source)
        part_reference._load.cache_clear()


def test_a_metric_of_another_person_is_left_out(run, monkeypatch, tmp_path):
    part_reference._load.cache_clear()
    monkeypatch.setattr(trusted_code, "_of_this_process", set())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.warns(UserWarning, match="'long_words' is left out.*TFF_KEYBOARD_TRUST"):
        evaluation = tk.evaluation.evaluate_run(run.path, "held_out")
    assert "long_words" not in evaluation.metrics
    assert "kss" in evaluation.metrics


@pytest.mark.parametrize("train", [train_federated, train_central])
def test_a_wrong_result_leaves_no_run(store, file, tmp_path, train):
    config = tiny_config(store, f"evaluation.metrics.broken={{type='{file}:broken'}}")
    with pytest.raises(ConfigError, match="must return two arrays"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_central_training_validates_it(store, file, tmp_path):
    config = config_of(store, file, "train.rounds=1")
    row = train_central(config, tmp_path / "run")
    evaluation = tk.evaluation.evaluate_run(tmp_path / "run", "validation")
    expected = evaluation.metrics["long_words"].value
    assert row["evaluation/long_words"] == pytest.approx(expected)


@pytest.mark.slow
def test_a_private_run_releases_it_like_other_metrics_of_the_validation(store, file, tmp_path):
    private = (
        "aggregation.client_weighting=uniform",
        "aggregation.privacy={type='gaussian', clip_norm=0.5, noise_multiplier=1.0}",
    )
    train_federated(config_of(store, file, *private, "train.rounds=1"), tmp_path / "run")
    run = RunDirectory(tmp_path / "run")
    (row,) = [json.loads(line) for line in run.metrics_jsonl.read_text().splitlines()]
    released = {name for name in row if name.startswith("evaluation/")}
    assert {"evaluation/long_words", "evaluation/perplexity"} <= released
    assert not any("own/" in line for line in run.withheld_jsonl.read_text().splitlines())
    assert "NO CLAIM" not in privacy_statement(run.privacy_ledger)


@pytest.mark.slow
@pytest.mark.parametrize("has_store", [True, False], ids=["store", "client data"])
def test_a_loop_of_a_program_validates_it(store, file, tmp_path, has_store):
    table = {"type": f"{file}:long_words", "min_letters": LETTERS}
    options = {"tables": {"evaluation": {"metrics": {"long_words": table}}}}
    clients = store
    client_store = tk.data.ClientStore(store)
    if not has_store:
        texts = {
            name: {"text": [" ".join(words) for words in client_store.words("validation", name)]}
            for name in client_store.client_ids("validation")
        }
        held_out = tff.simulation.datasets.TestClientData(texts)
        options |= {"vocabulary": client_store.vocabulary, "validate": held_out}
        clients = tk.data.client_data_batches(
            held_out, client_store.vocabulary, feature="text", batch_size=4, max_length=8
        )
    sizes = {"vocabulary_size": len(client_store.vocabulary), "seed": 1, "units": 6}
    process = tff.learning.algorithms.build_weighted_fed_avg(
        tk.models.build_model_fn("cifg", **sizes),
        client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.5),
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
    arguments = {"model": tk.models.build_model("cifg", **sizes), "clients_per_round": 2}
    row = tk.training.train(process, clients, tmp_path / "run", rounds=1, **arguments, **options)
    hits, words = counts_by_definition(RunDirectory(tmp_path / "run"), store, "validation")
    assert row["evaluation/long_words"] == pytest.approx(sum(hits) / sum(words))
    options["validate"] = lambda weights: {"recall_at_1_no_eos": 0.0}
    with pytest.raises(ConfigError, match="no effect with a function as `validate`"):
        tk.training.train(process, clients, tmp_path / "other", rounds=1, **arguments, **options)
