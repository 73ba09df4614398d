"""The attack task on shrunk trainings: attacks of each kind, resuming, refusals, FedAtt bare."""

import json

import numpy as np
import pytest

from tests.support.fakes import TINY
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.config.sections.aggregation_config import NoClipping
from tff_keyboard.data.preparing.prepare import prepare as prepare_store
from tff_keyboard_lab import file_names
from tff_keyboard_lab.attacks import attack_study
from tff_keyboard_lab.attacks.attack_names import ATTACK_NAMES, BACKDOORS, COLLUDING
from tff_keyboard_lab.attacks.attack_report import POPULATIONS, table, verdict
from tff_keyboard_lab.attacks.attack_study import study_attacks
from tff_keyboard_lab.attacks.attackers import UPDATE_ATTACKS
from tff_keyboard_lab.commands import attack

SETTINGS = [
    *TINY,
    "server.type=fedavg",
    "train.rounds=2",
    "train.clients_per_round=4",
    "aggregation.protection.type=auto",  # the demo itself is unprotected
]

# What each attack sends is tested in `attacks/`.
OF_EACH_KIND = ("nan", "weight_lie", "shuffled_labels", "min_max", "quiet_backdoor")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "demo"
    prepare_store(tiny_config(path).data, path)
    return path


def tiny_config(store, *overrides):
    return config_lib.load("configs/demo.toml", [*SETTINGS, f"data.store={store}", *overrides])


def weights(folder):
    with np.load(folder / "run" / "model" / "weights.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def distance(first, second):
    return np.sqrt(sum(np.sum((first[n].astype(float) - second[n]) ** 2) for n in first))


@pytest.mark.slow
@pytest.mark.parametrize("sampling, share", [("uniform", 0.1), ("proportional", 0.5)])
def test_attackers_claim_the_largest_counted_text(store, tmp_path, monkeypatch, sampling, share):
    wrapped = []
    monkeypatch.setattr(
        attack_study,
        "train_federated",
        lambda config, path, *, wrap_client_work, allow_tff_server: wrapped.append(
            wrap_client_work
        ),
    )
    config = tiny_config(store, f"train.client_sampling={sampling}")
    attack_study._train(config, tmp_path, "sign_flip", 0.1)
    assert wrapped[0].keywords["share"] == pytest.approx(share)


def test_names_are_those_of_the_library():
    assert sorted(ATTACK_NAMES) == sorted([*UPDATE_ATTACKS, *COLLUDING, "shuffled_labels"])
    assert set(BACKDOORS) < set(COLLUDING)


def test_a_fixed_nonce_is_refused_before_the_first_training(tmp_path):
    """Clean and attacked runs would have the same noise."""
    fixed = 'aggregation.privacy={type="gaussian", noise_multiplier=1.0, fixed_nonce="%s"}'
    config = config_lib.load(
        "configs/demo.toml", ["aggregation.client_weighting=uniform", fixed % ("ab" * 16)]
    )
    with pytest.raises(config_lib.ConfigError, match="fixed_nonce` must be"):
        study_attacks({"mean": config}, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_attacks_train_are_compared_and_written(store, tmp_path):
    config = tiny_config(store, "aggregation.rule.type=fedatt")
    rows = study_attacks(
        {"fedatt": config}, tmp_path, attacks=OF_EACH_KIND, share=0.5, allow_tff_server=True
    )
    assert [row.attack for row in rows] == ["clean", *OF_EACH_KIND]
    written = tmp_path / "attacks.json"
    assert json.loads(written.read_text()) == [row.to_json() for row in rows]
    assert written.stat().st_mode & 0o777 == 0o600
    assert all(row.rounds == 2 and row.rejected_rounds == 0 for row in rows)
    refused = {row.attack: row.refused_updates for row in rows}
    by_attack = {row.attack: row.figures for row in rows}
    hits = {name for name, found in by_attack.items() if found.hit is not None}
    assert hits == {"clean", "quiet_backdoor"}
    # The same clients attack in every training, so NaN counts them: half of 2 rounds of 4.
    assert refused.pop("nan") in range(1, 8)
    assert set(refused.values()) == {0}
    clean = weights(tmp_path / "fedatt" / "clean")
    for name in OF_EACH_KIND:
        attacked = weights(tmp_path / "fedatt" / name)
        assert all(np.isfinite(value).all() for value in attacked.values()), name
        assert distance(clean, attacked) > 1e-6, name
        for people in POPULATIONS:
            both_runs = (by_attack[name], by_attack["clean"])
            difference = by_attack[name].difference[people]
            recalls = [found.recall[people]["value"] for found in both_runs]
            assert difference["value"] == pytest.approx(recalls[0] - recalls[1])
            both = [found.perplexity[people]["value"] for found in both_runs]
            factor = by_attack[name].perplexity_factor[people]["value"]
            assert factor == pytest.approx(both[0] / both[1])
    assert "to clean" in table(rows)


@pytest.mark.slow
def test_without_protection_a_boosted_client_carries_fedatt_away(store, tmp_path):
    config = tiny_config(
        store,
        "aggregation.rule.type=fedatt",
        "aggregation.protection.type=adaptive",
        "aggregation.protection.clip_norm=0.1",
    )
    rows = study_attacks(
        {"fedatt": config}, tmp_path, attacks=["boost"], share=0.5, unprotected=True
    )
    assert [row.rule for row in rows] == [*["fedatt"] * 2, *["fedatt_unprotected"] * 2]
    moved = {
        rule: distance(*(weights(tmp_path / rule / name) for name in ("clean", "boost")))
        for rule in ("fedatt", "fedatt_unprotected")
    }
    # The bound can double a few times in two rounds; a hundredfold delta cannot pass it.
    assert moved["fedatt_unprotected"] > 20 * moved["fedatt"]


@pytest.mark.slow
def test_again_is_the_same_and_costs_no_evaluation(store, tmp_path, monkeypatch):
    config = tiny_config(store)
    first = study_attacks({"mean": config}, tmp_path, attacks=["sign_flip"], share=0.5)
    monkeypatch.setattr(
        "tff_keyboard.evaluation.run_evaluation.evaluate_run",
        lambda *args, **kwargs: pytest.fail("evaluated"),
    )
    assert study_attacks({"mean": config}, tmp_path, attacks=["sign_flip"], share=0.5) == first
    with pytest.raises(cli.UsageError, match=r"share"):
        study_attacks({"mean": config}, tmp_path, attacks=["sign_flip"], share=0.25)
    (tmp_path / "mean" / "sign_flip" / file_names.ATTACK).unlink()
    with pytest.raises(cli.UsageError, match="its attack is unknown"):
        study_attacks({"mean": config}, tmp_path, attacks=["sign_flip"], share=0.5)


def test_variants_drop_protection_where_there_is_some():
    configs = {
        "mean": config_lib.loads("", ["train.early_stop_patience=3"]),
        "median": config_lib.loads("", ["aggregation.rule.type=median"]),
    }
    actual = attack_study.variants(configs, True)
    assert list(actual) == ["mean", "mean_unprotected", "median"]
    assert actual["mean"].aggregation == configs["mean"].aggregation
    assert actual["mean_unprotected"].aggregation.resolved_protection == NoClipping()
    assert all(config.train.final_model == "last" for config in actual.values())
    assert actual["mean"].train.early_stop_patience == 0
    assert list(attack_study.variants(configs, False)) == ["mean", "median"]


@pytest.mark.parametrize(
    "interval, expected",
    [
        ((-0.004, 0.0, 0.004), "holds"),
        ((-0.010, 0.0, 0.010), "holds"),
        ((-0.011, 0.0, 0.011), "open"),
        ((-0.030, -0.02, -0.009), "open"),
        ((-0.030, -0.02, -0.011), "fails"),
        ((None, 0.0, None), "open"),
    ],
)
def test_verdict(interval, expected):
    assert verdict(dict(zip(("low", "value", "high"), interval, strict=True))) == expected


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--workdir=x"], "--config"),
        (["--config=configs/demo.toml"], "--workdir"),
        (["--config=configs/demo.toml", "--workdir=x", "--attacks=bribe"], "bribe"),
        (["--config=configs/demo.toml", "--workdir=x", "--share=1.5"], "--share"),
        (["--config=configs/demo.toml"] * 2 + ["--workdir=x"], "the same name"),
        (["--config=configs/demo.toml", "--workdir=x", "--attacks=alie,ipm"], "(alie, ipm)"),
        (["--config=configs/demo.toml", "--workdir=x", "--attacks=ipm"], "--allow-tff-server"),
    ],
)
def test_wrong_flags_are_one_line(arguments, message, capsys):
    assert cli.launch(attack, arguments) == cli.USAGE
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
