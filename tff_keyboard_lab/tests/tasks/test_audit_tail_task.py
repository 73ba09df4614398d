"""The tail audit task: flags, tables, identical models, small tails, and end to end."""

import dataclasses
import json
import math

import numpy as np
import pytest

from tests.privacy.claims.test_statement import HEADER
from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.command_line import cli
from tff_keyboard.data.preparing.prepare import prepare as prepare_store
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.data.vocabulary import NormalisationRules, Vocabulary
from tff_keyboard.models import build_model
from tff_keyboard.models.saved_model import save_model
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage.errors import SavedModelError
from tff_keyboard_lab.audits import tail_audit
from tff_keyboard_lab.audits.leave_one_out import train_without_each
from tff_keyboard_lab.audits.model_pairs import audit_pairs
from tff_keyboard_lab.audits.neighbouring_runs import other_differences, rounds_joined
from tff_keyboard_lab.audits.tail_audit import Settings
from tff_keyboard_lab.audits.tail_report import CLAIM, table
from tff_keyboard_lab.audits.tail_statistics import MIN_TAIL, TAIL_FRACTIONS
from tff_keyboard_lab.commands import audit_tail

TINY = [
    "data.synthetic_typists=24",
    "data.synthetic_messages=12",
    "data.vocabulary_size=60",
    "data.validation_fraction=0.2",
    "data.held_out_fraction=0.2",
    "model.units=12",
    "model.embedding_size=8",
    "client.max_examples=8",
    "train.rounds=2",
    "train.clients_per_round=4",
    "evaluation.every=2",
]
SETTINGS = Settings(num_texts=600, num_words=4, delta=0.01)


def vocabulary_of(size):
    counts = {f"word{i:02}": 100 - i for i in range(size - 4)}
    return Vocabulary.from_counts(counts, size, NormalisationRules())


def save(directory, *, seed=1, size=30, noise=0.0):
    """Saves a small model. `noise` changes its weights a little."""
    model = build_model("cifg", vocabulary_size=size, seed=seed, units=6, embedding_size=5)
    rng = np.random.default_rng(3)
    for variable in model.trainable_variables:
        moved = variable.numpy() + rng.normal(scale=0.3, size=variable.shape)
        moved += noise * rng.normal(size=variable.shape)
        variable.assign(moved.astype(np.float32))
    save_model(directory, model, vocabulary_of(size))
    return directory


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return save(folder / "with"), save(folder / "without", noise=0.02)


# Flags


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Pass two run directories"),
        (["runs/a"], "got 1 arguments"),
        (["a", "b", "c"], "got 3 arguments"),
        (["a", "b", "--excluded-client=1"], "require --config"),
        (["a", "b", "--workdir=c"], "require --config"),
        (["a", "b", "--set=train.rounds=1"], "require --config"),
        (["--config=configs/demo.toml", "--excluded-client=1"], "--workdir"),
        (["--config=configs/demo.toml", "--workdir=w"], "--excluded-client=POSITIONS"),
        (
            ["--config=configs/demo.toml", "--workdir=w", "--excluded-client=1,x"],
            "--excluded-client=1,x",
        ),
        (["--config=configs/demo.toml", "--workdir=w", "--excluded-client=1", "extra"], "'extra'"),
        (["a", "b", "--texts=99"], "99 is not integer >= 100"),
        (["a", "b", "--words=0"], "0 is not a positive integer"),
        (["a", "b", "--seed=-1"], "-1 is not a non-negative integer"),
        (["a", "b", "--delta=0"], "--delta must be in (0, 1), got 0.0"),
        (["a", "b", "--delta=1"], "--delta must be in (0, 1), got 1.0"),
        (["a", "b", "--epsilon=-0.5"], "-0.5 is not a non-negative number"),
    ],
)
def test_wrong_flags_are_one_line(arguments, message, capsys):
    assert cli.launch(audit_tail, arguments) == cli.USAGE
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_no_model_is_bad_input(tmp_path, capsys):
    assert cli.launch(audit_tail, [str(tmp_path), str(tmp_path)]) == cli.BAD_INPUT
    assert "no saved model" in capsys.readouterr().err


def test_the_fewest_texts_are_those_of_the_smallest_tail():
    assert math.ceil(MIN_TAIL / TAIL_FRACTIONS[0]) == 100  # the lower bound of --texts


# Pairs of models


@pytest.mark.slow
def test_a_model_and_itself_show_no_difference(pair):
    result = audit_pairs(pair[0], [pair[0]], SETTINGS)
    assert result.worst.outcome == "no difference"
    assert result.worst.epsilon == result.worst.epsilon_conservative == 0.0
    for facts in result.pairs[0].directions.values():
        assert facts.largest_log_ratio == 0.0
        assert facts.delta_at_epsilon == 0.0
    output = table(result)
    assert "NOT A GUARANTEE" in output
    assert "every ratio is exactly 1" in output


def test_two_models_give_figures_a_file_and_the_claim(pair, tmp_path, capsys):
    out = tmp_path / "new" / "audit.json"
    words = [*map(str, pair), "--texts=2000", "--words=4", f"--out={out}", "--seed=2"]
    words += ["--delta=2e-3", "--epsilon=0.01"]  # where these two models still differ in many texts
    assert cli.launch(audit_tail, words) == cli.OK
    result = json.loads(out.read_text())
    assert result["claim"] == CLAIM
    assert (result["num_texts"], result["num_words"], result["seed"]) == (2000, 4, 2)
    (actual,) = result["pairs"]
    assert actual["rounds_joined"] is None  # saved models know no rounds
    for facts in actual["directions"].values():
        assert facts["outcome"] == "estimate"
        tail = facts["tail"]
        assert tail["num_samples"] == 2000
        assert tail["alpha_low"] < tail["alpha"] < tail["alpha_high"]
        assert tail["p_value"] >= 0.05
        assert 0 < facts["epsilon"] <= facts["epsilon_conservative"] < 5
        # In the order of what was seen: delta is that of a few of the 2,000 texts.
        assert 0.1 < facts["epsilon"] / facts["largest_log_ratio"] < 2
        # Without a tail, from the other model's texts: within the error of 2,000 of them.
        error = 4 * np.sqrt(facts["delta_at_epsilon"] / 2000)
        assert abs(facts["delta_at_epsilon_direct"] - facts["delta_at_epsilon"]) < error
    epsilons = [facts["epsilon"] for facts in actual["directions"].values()]
    assert result["worst"]["epsilon"] == actual["epsilon"] == max(epsilons)
    output = capsys.readouterr().out
    assert output.index("NOT A GUARANTEE") < output.index("epsilon")
    assert f"{actual['epsilon']:.4f}" in output
    assert "Formal guarantee: none" in output


@pytest.mark.slow
def test_ratios_are_those_of_the_two_models(tmp_path, monkeypatch):
    """E[c] = 1 over texts of the denominator's model, so that swapped models are detected."""
    folders = save(tmp_path / "with"), save(tmp_path / "without", noise=0.1)
    samples = []
    true_direction = tail_audit.direction

    def keep(log_ratios, settings):
        samples.append(log_ratios)
        return true_direction(log_ratios, settings)

    monkeypatch.setattr(tail_audit, "direction", keep)
    audit_pairs(folders[0], [folders[1]], dataclasses.replace(SETTINGS, num_texts=4000))
    for log_ratios in samples:
        ratios = np.exp(log_ratios)
        assert ratios.mean() == pytest.approx(1.0, abs=4 * ratios.std() / np.sqrt(4000))
        # The mean of ln c is minus a relative entropy: below 0, by about half its variance.
        assert log_ratios.mean() < -3 * log_ratios.std() / np.sqrt(4000)


@pytest.mark.slow
def test_a_wider_gap_costs_more(pair, tmp_path):
    further = save(tmp_path / "further", noise=0.1)
    result = audit_pairs(pair[0], [pair[1], further], SETTINGS)
    near, far = result.pairs
    assert near.epsilon < far.epsilon == result.worst.epsilon
    # What else is audited does not change a pair.
    alone = audit_pairs(pair[0], [further], SETTINGS)
    assert alone.pairs[0] == far


def test_different_vocabularies_are_refused(pair, tmp_path):
    other = save(tmp_path / "other", size=31)
    with pytest.raises(config_lib.ConfigError, match="different vocabularies"):
        audit_pairs(pair[0], [other], SETTINGS)
    with pytest.raises(SavedModelError):
        audit_pairs(pair[0], [tmp_path / "nothing"], SETTINGS)


@pytest.mark.slow
def test_the_formal_guarantee_is_printed_beside(pair, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    save(run / "model")
    ledger = PrivacyLedger(run / "privacy_ledger.jsonl", HEADER)
    for round_num in (1, 2):
        ledger.record(round_num, clip_norm=0.5)
    result = audit_pairs(run, [pair[1]], SETTINGS)
    assert result.formal.rounds == 2
    assert result.formal.epsilon > 0
    output = table(result)
    assert f"epsilon {result.formal.epsilon:.2f} at delta 1e-06 (" in output


# What a sample says


@pytest.mark.slow
def test_a_sample_without_a_pareto_tail_is_no_estimate(pair, monkeypatch):
    bounded = np.random.default_rng(1).beta(2.0, 0.2, 20_000)
    facts = tail_audit.direction(bounded, SETTINGS)
    assert facts.outcome == "no estimate"
    assert facts.epsilon is None
    assert facts.tail is None
    monkeypatch.setattr(tail_audit, "direction", lambda ratios, settings: facts)
    result = audit_pairs(pair[0], [pair[1]], SETTINGS)
    assert result.worst.epsilon is None
    assert result.worst.no_estimate_for == ["without"]
    output = table(result)
    assert "NO ESTIMATE overall" in output
    assert "not a sign of privacy" in output


def test_a_tail_without_a_mean_is_no_estimate():
    heavy = np.random.default_rng(2).exponential(2.0, 5000)  # alpha = 0.5
    facts = tail_audit.direction(heavy, SETTINGS)
    assert facts.outcome == "no estimate"
    assert facts.tail.alpha < 1
    json.dumps(dataclasses.asdict(facts), allow_nan=False)


def test_one_direction_without_estimate_leaves_the_pair_without():
    actual = {"outcome": "estimate", "epsilon": 0.5, "epsilon_conservative": 0.7}
    none = {"outcome": "no estimate", "epsilon": None, "epsilon_conservative": None}
    pairs = [
        tail_audit.Pair(name="a", directions={}, epsilon_direct=0.2, **actual),
        tail_audit.Pair(name="b", directions={}, epsilon_direct=0.1, **none),
    ]
    assert tail_audit.worst(pairs) == tail_audit.WorstResult(
        **none, epsilon_direct=0.2, no_estimate_for=["b"]
    )
    assert tail_audit.worst(pairs[:1]).epsilon_conservative == 0.7


@pytest.mark.slow
def test_run_directories_say_what_else_differs(tmp_path):
    runs = [tmp_path / name for name in ("all", "without", "other")]
    for path, overrides, cohorts in zip(
        runs,
        ([], ["train.excluded_client=2", "execution.threads=2"], ["client.learning_rate=0.1"]),
        ("abc", "axc", "abc"),
        strict=True,
    ):
        path.mkdir()
        config = config_lib.load("configs/demo.toml", overrides)
        (path / "config.toml").write_text(config_lib.dump(config))
        rows = [{"round": i + 1, "cohort": digest} for i, digest in enumerate(cohorts)]
        (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert other_differences(runs[0], runs[1]) == []
    assert other_differences(runs[0], runs[2]) == ["client.learning_rate"]
    assert rounds_joined(runs[0], runs[1]) == 1
    assert rounds_joined(runs[0], tmp_path) is None
    ledger = PrivacyLedger(runs[0] / "privacy_ledger.jsonl", HEADER)  # each drew its own cohorts
    for round_num in (1, 2, 3):
        ledger.record(round_num)
    assert rounds_joined(runs[0], runs[1]) is None


# Trained here


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "demo"
    tiny = config_lib.load("configs/demo.toml", [*TINY, f"data.store={path}"])
    prepare_store(tiny.data, path)
    return tiny


@pytest.mark.slow
def test_positions_outside_the_store_are_refused_before_training(config, tmp_path):
    with pytest.raises(config_lib.ConfigError, match=r"positions in \[0, \d+\).*; got 99"):
        train_without_each(config, tmp_path / "runs", [0, 99])
    assert not (tmp_path / "runs").exists()
    fixed = dataclasses.replace(config, train=dataclasses.replace(config.train, excluded_client=1))
    with pytest.raises(config_lib.ConfigError, match=r"`train\.excluded_client` = 1"):
        train_without_each(fixed, tmp_path / "runs", [0])


@pytest.mark.slow
def test_a_tiny_federation_is_trained_and_audited(config, tmp_path, capsys):
    population = len(ClientStore(config.data.store).client_ids("train"))
    sampler = CohortSampler(config.train, population)
    rounds = range(1, config.train.rounds + 1)
    cohorts = [sampler.cohort(round_num).reporting.tolist() for round_num in rounds]
    joined = cohorts[0][0]
    never = min(set(range(population)) - set().union(*cohorts))
    workdir = tmp_path / "audit"
    words = [f"--set={word}" for word in [*TINY, f"data.store={config.data.store}"]]
    words += ["--config=configs/demo.toml", f"--workdir={workdir}", "--texts=1000", "--words=5"]
    words += [f"--excluded-client={joined},{never}", "--delta=0.01"]
    assert cli.launch(audit_tail, words) == cli.OK
    first = (workdir / "audit_tail.json").read_bytes()
    result = json.loads(first)
    by_name = {found["name"]: found for found in result["pairs"]}

    absent = by_name[f"without_{never}"]
    assert absent["rounds_joined"] == 0
    assert absent["outcome"] == "no difference"
    assert absent["epsilon"] == 0.0

    present = by_name[f"without_{joined}"]
    assert present["rounds_joined"] == sum(joined in cohort for cohort in cohorts)
    assert present["other_differences"] == []
    assert present["outcome"] == "estimate"
    assert 0 <= present["epsilon"] <= present["epsilon_conservative"] < 20
    assert all(facts["largest_log_ratio"] > 0 for facts in present["directions"].values())
    assert result["worst"]["epsilon"] == present["epsilon"]
    assert result["formal"] is None
    assert "took part in 0 rounds" in capsys.readouterr().out

    # Again: nothing is trained twice, and every figure is the same.
    assert cli.launch(audit_tail, words) == cli.OK
    assert "already done" in capsys.readouterr().out
    assert (workdir / "audit_tail.json").read_bytes() == first
