"""Fine-tuning runs in miniature: every method end to end, two populations in every evaluation."""

import dataclasses
import json

import numpy as np
import pytest

from tasks.data import merge_vocabulary as merge_task
from tasks.evaluate import evaluate as evaluate_task
from tests.support.fakes import save_untrained_run
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.config.sections.data_config import DataConfig
from tff_keyboard.data.preparing import prepare
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.counts import predictor_evaluation, typed_text
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.storage.errors import DataError
from tff_keyboard.training import run_stores, validation
from tff_keyboard.training.federated import train_federated

DATA = DataConfig(
    synthetic_typists=24,
    synthetic_messages=12,
    vocabulary_size=120,
    validation_fraction=0.2,
    held_out_fraction=0.2,
)
TINY = [
    "model.units=12",
    "model.embedding_size=8",
    "client.max_examples=8",
    "train.rounds=2",
    "train.clients_per_round=3",
    "evaluation.every=1",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Stores `users` and `general`, both encoded with one merged vocabulary, and `other`."""
    out = tmp_path_factory.mktemp("stores")
    sources = {"users": DATA, "general": dataclasses.replace(DATA, seed=9, synthetic_messages=20)}
    for name, config in sources.items():
        prepare.prepare(config, out / f"own_{name}")
    merged = out / "merged.txt"
    own = (out / "own_users", out / "own_general")
    merge_task.run(merge_task.Options(stores=own, out=merged, size=120))
    for name, config in sources.items():
        prepare.prepare(dataclasses.replace(config, vocabulary_path=str(merged)), out / name)
    return out


def config(folder, *overrides):
    stores = [f"data.store={folder / 'users'}", f"fine_tuning.general_store={folder / 'general'}"]
    return config_lib.loads("", [*TINY, *stores, *overrides])


@pytest.fixture(scope="module")
def general_model(folder, tmp_path_factory):
    """A run on the general corpus: what fine-tuning starts from."""
    path = tmp_path_factory.mktemp("runs") / "general"
    overrides = [*TINY, f"data.store={folder / 'general'}"]
    train_federated(config_lib.loads("", overrides), path)
    return path


METHODS = {
    "retraining": [],
    "rehearsal": ["fine_tuning.method.type=rehearsal", "fine_tuning.method.portion=0.25"],
    "lwf": ["fine_tuning.method.type=lwf", "fine_tuning.method.true_label_weight=0.5"],
    "transfer": ["fine_tuning.server.type=transfer", "fine_tuning.server.messages=20"],
    "generated": [
        "fine_tuning.server.type=transfer",
        "fine_tuning.server.text=generated",
        "fine_tuning.server.messages=20",
    ],
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*simulation only")
@pytest.mark.parametrize("method", METHODS)
def test_methods_train_and_are_judged_on_both_populations(
    folder, general_model, tmp_path, method, capsys
):
    best = ["train.best_metric=trade_off/perplexity"]
    settings = config(folder, f"model.initial_model={general_model}", *METHODS[method], *best)
    row = train_federated(settings, tmp_path / "run")
    assert row["rejected"] == 0
    for name in ("perplexity", "recall_at_3_no_eos"):
        user, general = row[f"evaluation/{name}"], row[f"evaluation/general/{name}"]
        mean = (user * general) ** 0.5 if name == "perplexity" else (user + general) / 2
        assert row[f"evaluation/trade_off/{name}"] == pytest.approx(mean)
        assert user != general
    assert "general: top-1" in capsys.readouterr().out
    sent = row["bytes_rehearsal"]
    assert (sent > 0) == (method == "rehearsal")


DP = [
    "aggregation.privacy.type=gaussian",
    "aggregation.privacy.noise_multiplier=0.1",
    "aggregation.client_weighting=uniform",
    "fine_tuning.general_store=",  # its clients have the ids of the clients that the noise protects
]


@pytest.mark.parametrize(
    "overrides",
    [
        ["aggregation.rule.type=fedmed"],  # whose clients score their work besides
        ["aggregation.rule.type=fedatt"],
        DP,
    ],
    ids=["fedmed", "fedatt", "dp"],
)
@pytest.mark.slow
def test_compositions_with_the_rules_of_aggregation(folder, general_model, tmp_path, overrides):
    """A client's method does not care who aggregates: FedMed's scored work, DP."""
    start = f"model.initial_model={general_model}"
    row = train_federated(config(folder, start, *METHODS["lwf"], *overrides), tmp_path / "run")
    assert np.isfinite(row["evaluation/perplexity"])
    assert row["rejected"] == 0


@pytest.mark.slow
def test_evaluate_prints_both_populations(folder, tmp_path, capsys):
    run = save_untrained_run(tmp_path / "run", config(folder))
    result = evaluate_task.run(evaluate_task.Options(run_dir=run))
    shown = capsys.readouterr().out
    assert "General corpus:" in shown
    assert "keystrokes saved" in shown
    content = json.loads((run / "evaluation_held_out.json").read_text())
    assert content == result.to_json()
    general = ClientStore(folder / "general")
    assert len(result.general.text.people) == len(general.client_ids("held_out"))
    assert result.general.text.store == general.card_hash
    # Its metrics are those that the evaluation of predictors gives on the same text.
    model, vocabulary = load_model(run)
    text = typed_text.of_population(general, "held_out")
    sums = predictor_evaluation.evaluate(KerasPredictor(model, vocabulary), text).sums
    kss = 1 - sums["typed_free"].sum() / sums["characters"].sum()
    assert result.general.metrics["kss"].value == pytest.approx(kss)
    assert result.metrics["kss"].value != pytest.approx(kss)


@pytest.mark.slow
def test_user_weight_is_the_trade_off(folder):
    settings = config(folder, "fine_tuning.user_weight=0.2")
    store, general = ClientStore(folder / "users"), ClientStore(folder / "general")
    sums = iter([1.0, 3.0])  # nats a token of users, then of the general corpus

    def evaluate_on(store):
        del store
        return evaluate

    def evaluate(weights):
        del weights
        nats = next(sums)
        names = ("examples", "tokens", "eos_tokens", "oov_tokens", "nll", "nll_eos", "nll_oov")
        hits = ("hits_at_1", "hits_at_3", "hits_at_1_eos_allowed", "hits_at_3_eos_allowed")
        argmax = ("argmax_hits_words", "argmax_hits_eos", "argmax_hits_oov")
        row = dict.fromkeys([*names, *hits, *argmax], np.array([0.0]))
        return row | {"tokens": np.array([10]), "nll": np.array([10 * nats])}

    user_weight = settings.fine_tuning.user_weight
    metrics = validation.Validation(store, general, evaluate_on, user_weight)(1, None)
    assert metrics["trade_off/perplexity"] == pytest.approx(np.exp(0.2 * 1 + 0.8 * 3))
    assert set(metrics) == set(run_stores.metric_names(settings))


def test_stores_with_other_vocabularies_are_refused(folder, tmp_path):
    settings = config_lib.loads(
        "",
        [
            *TINY,
            f"data.store={folder / 'users'}",
            f"fine_tuning.general_store={folder / 'own_general'}",
        ],
    )
    with pytest.raises(DataError, match=r"fine_tuning\.general_store.*another vocabulary"):
        train_federated(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one", "--out=x"], "two client stores"),
        (["a", "b"], "--out"),
        (["a", "b", "--out=x", "--size=3"], "--size"),
    ],
)
def test_merge_vocabulary_explains_wrong_use(arguments, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.launch(merge_task, arguments) == cli.USAGE
    assert message in capsys.readouterr().err
