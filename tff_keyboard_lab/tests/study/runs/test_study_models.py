"""Models next to the arms of a study are evaluated as `compare` does."""

import json

import pytest

from tests.support import fakes
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation import run_evaluation
from tff_keyboard.evaluation.counts import typed_text
from tff_keyboard.evaluation.model_specs import baselines
from tff_keyboard.evaluation.results.result import ModelFacts
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage.errors import UsageError
from tff_keyboard_lab import file_names
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.plan.study_file import Arm, Model, Study
from tff_keyboard_lab.study.results.report import Results
from tff_keyboard_lab.study.runs.evaluator import StudyEvaluator
from tff_keyboard_lab.study.runs.models import Models
from tff_keyboard_lab.tests.study.results.test_rows import FACTS


def study_of(*models):
    return Study(
        question="?",
        control="control",
        arms=tuple(Arm(name=name, config="config.toml") for name in ("control", "other")),
        models=models,
        populations=("held_out",),
    )


@pytest.fixture
def runs(store, tmp_path):
    config = fakes.tiny_config(store)
    actual = {}
    for name in ("control", "other"):
        for seed in (1, 2):
            path = tmp_path / f"{name}_seed{seed}"
            fakes.save_untrained_run(path, config)
            actual[name, seed] = Run(
                name, "", seed, path, "train", path / "config.toml", (), config, None
            )
    return actual


def models_of(study, runs, tmp_path):
    config = runs["control", 1].config
    return Models(study, StudyEvaluator(study, config), config.data.store, tmp_path / "models")


def metrics(models, run):
    return models.of_run(run)["ngram"]["held_out"].metrics


def test_a_hybrid_has_the_digits_of_compare_and_a_baseline_comes_with_the_control(
    runs, store, tmp_path
):
    study = study_of(
        Model(name="ngram", model="ngram:3"), Model(name="both", model="hybrid:{other}")
    )
    models = models_of(study, runs, tmp_path)
    ours = models.of_run(runs["other", 1])
    assert list(ours) == ["both"]
    opened = ClientStore(store)
    word = f"hybrid:{runs['other', 1].path}"
    text = baselines.read_train_text(opened)
    predictor = KerasPredictor(*load_model(runs["other", 1].path))
    network_model = baselines.NamedPredictor("both", "keras", predictor, {}, word)
    hybrid = baselines.join_hybrid(network_model, baselines.read_spec(word), text, opened)
    held_out = typed_text.of_population(opened, "held_out")
    expected = run_evaluation.evaluate_named(
        hybrid.predictor, ModelFacts(name="both"), held_out, store=opened
    )
    assert ours["both"]["held_out"].metrics == expected.metrics

    first, second = (models.of_run(runs["control", seed]) for seed in (1, 2))
    assert list(first) == ["ngram"]
    assert first["ngram"]["held_out"].metrics == second["ngram"]["held_out"].metrics


def test_evaluations_are_stored_until_their_inputs_change(runs, tmp_path, monkeypatch):
    study = study_of(Model(name="ngram", model="ngram:3"))
    models = models_of(study, runs, tmp_path)
    actual = metrics(models, runs["control", 1])
    with monkeypatch.context() as patched:
        patched.setattr(baselines, "train_baseline", None)  # would fail
        assert metrics(models, runs["control", 2]) == actual
    other = models_of(study_of(Model(name="ngram", model="ngram:2")), runs, tmp_path)
    assert metrics(other, runs["control", 1]) != actual
    assert len(list((tmp_path / "models").iterdir())) == 2


def test_a_sweep_brings_no_models(runs, tmp_path):
    point = runs["control", 1]
    swept = Run(**{**vars(point), "point": "client.epochs=5"})
    models = models_of(study_of(Model(name="ngram", model="ngram")), runs, tmp_path)
    assert models.of_run(swept) == {}


def test_an_impossible_size_is_refused_before_any_training(runs, tmp_path):
    with pytest.raises(UsageError, match=r"ngram:1\.25X"):
        models_of(study_of(Model(name="ngram", model="ngram:1.25X")), runs, tmp_path)


def test_rows_of_models_have_a_difference_and_no_facts_of_training(runs, tmp_path, monkeypatch):
    study = study_of(
        Model(name="ngram", model="ngram:3", label="3-gram", paper="13.0"),
        Model(name="late", model="hybrid:{other}"),
    )
    models = models_of(study, runs, tmp_path)
    control = runs["control", 1]
    results = Results(study, list(runs.values()), "tff-keyboard study s")
    monkeypatch.setattr(
        "tff_keyboard_lab.study.results.run_facts.facts_of", lambda run, study: FACTS
    )
    results.add(control, StudyEvaluator(study, control.config).evaluations(control))
    for name, evaluations in models.of_run(control).items():
        results.add_model(name, 1, evaluations)
    text = results.write(tmp_path / "out")
    content = json.loads((tmp_path / "out" / file_names.STUDY).read_text())
    assert [row["arm"] for row in content["rows"]] == ["control", "ngram"]
    assert content["rows"][1]["model"] == "ngram:3"
    names_of = ("recall_at_1_no_eos", "perplexity")
    first, second = content["rows"]
    for metric, gap in zip(names_of, (float.__sub__, float.__truediv__), strict=True):
        values = [row["metrics"]["held_out"][metric]["value"] for row in (second, first)]
        difference = second["differences"]["held_out"][metric]["value"]
        assert difference == pytest.approx(gap(*values))
    answer, table = text.split("\n\n")
    assert "3-gram" in answer
    assert "3-gram" in table
    *_, held_out, facts = (tmp_path / "out" / file_names.STUDY_TABLES).read_text().split("\n\n")
    assert "| 3-gram | 1 |" in held_out
    assert "13.0" in held_out
    assert "3-gram" not in facts
