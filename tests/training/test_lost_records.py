"""Statements of private runs that lost or repeated a part of their records."""

import dataclasses
import json
import shutil

import pytest

from tasks.privacy import privacy as privacy_task
from tests.support.fakes import tiny_config
from tff_keyboard.command_line import cli
from tff_keyboard.privacy.claims.composed_statement import LedgerAndClients, composed_statement
from tff_keyboard.privacy.claims.plan_remarks import resumed_line
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger import client_digests, lineage, origin
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.storage.errors import CheckFailed, DataError, RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training import run_stores
from tff_keyboard.training.federated import train_federated
from tff_keyboard.training.open_training import open_training

PRIVATE = (
    "aggregation.client_weighting=uniform",
    "aggregation.privacy.type=tree",
    "aggregation.privacy.noise_multiplier=5",
    "train.min_separation_rounds=2",
    "train.clients_per_round=3",
    "train.final_model=last",
)


def private_config(store, rounds, *overrides):
    return tiny_config(store, *PRIVATE, f"train.rounds={rounds}", *overrides)


@pytest.fixture(scope="module")
def trained(store, tmp_path_factory):
    run = tmp_path_factory.mktemp("lost") / "run"
    train_federated(private_config(store, 6), run)
    return run


@pytest.fixture
def run(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def epsilon_and_rounds(run):
    lines = dict(
        line.split("  ", 1)
        for line in privacy_statement(run / "privacy_ledger.jsonl").split("\n")
        if line.startswith(("epsilon  ", "rounds released  "))
    )
    return {name: value.strip() for name, value in lines.items()}


@pytest.mark.slow
def test_a_run_that_starts_again_keeps_the_statement_of_all_its_releases(run, store):
    """As after damaged checkpoints, whose error message says to remove them."""
    expected, ledger = epsilon_and_rounds(run), (run / "privacy_ledger.jsonl").read_bytes()
    assert expected["rounds released"] == "6"
    shutil.rmtree(run / "checkpoints")
    train_federated(private_config(store, 2), run)  # fewer rounds: the model of 6 was released
    assert len(RunDirectory(run).rows()) == 2
    assert epsilon_and_rounds(run) == expected
    assert (run / "privacy_ledger.jsonl").read_bytes() == ledger
    train_federated(private_config(store, 7), run)
    assert epsilon_and_rounds(run)["rounds released"] == "7"
    assert (run / "privacy_ledger.jsonl").read_bytes().startswith(ledger)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [4, 1], ids=["last lines", "all rounds"])
def test_a_cut_ledger_makes_no_statement(run, lines, capsys, store):
    ledger = run / "privacy_ledger.jsonl"
    ledger.write_bytes(b"".join(ledger.read_bytes().splitlines(keepends=True)[:lines]))
    assert cli.launch(privacy_task, [str(run)]) == 5
    error = capsys.readouterr().err
    assert f"records {lines - 1} rounds, but " in error
    assert "is of round 6" in error
    with pytest.raises(CheckFailed):
        lineage.ancestors(str(run), ours=[])
    with pytest.raises(CheckFailed):
        train_federated(private_config(store, 8), run)


@pytest.mark.slow
def test_a_missing_ledger_is_not_a_run_without_privacy(run, capsys):
    (run / "privacy_ledger.jsonl").unlink()
    assert cli.launch(privacy_task, [str(run)]) == 5
    assert "is missing, but the run trained with privacy" in capsys.readouterr().err


def test_private_clients_cannot_be_rehearsed(store):
    method = ("fine_tuning.method.type=rehearsal", f"fine_tuning.general_store={store}")
    with pytest.raises(DataError, match=r"has (\d+) of the \1 train clients") as error:
        run_stores.open_stores(private_config(store, 1, *method))
    assert "\n" not in str(error.value)
    run_stores.open_stores(tiny_config(store, *method))  # without a claim of privacy


@pytest.mark.slow
def test_a_run_that_rehearsed_its_own_clients_has_no_claim(run, store):
    """As version 0.2.0 allowed it."""
    directory = RunDirectory(run)
    digests = client_digests.read(directory.client_digests)
    assert digests is not None
    assert "NO CLAIM" not in privacy_statement(directory.privacy_ledger)
    few = client_digests.ClientDigests(digests.salt_id, frozenset(sorted(digests.digests)[:2]))
    client_digests.write(directory.rehearsed_client_digests, few)
    few_path = directory.rehearsed_client_digests
    text = privacy_statement(directory.privacy_ledger)
    assert text.startswith("NO CLAIM: 2 of these clients are also in the general corpus")
    assert "epsilon                    NO CLAIM" in text
    assert resumed_line(directory.privacy_ledger, 9).endswith(": NO CLAIM.")
    part = LedgerAndClients.of_run(run)
    twin = dataclasses.replace(part.header, key_id="twin")
    both = composed_statement({"a": part, "b": LedgerAndClients(twin, 3, part.clients)})
    assert both.startswith("NO CLAIM for a, b together: a was, or may have been, trained")
    kept = few_path.read_bytes()
    few_path.unlink()
    config = directory.config_path.read_text()
    directory.config_path.write_text(config.replace('general_store = ""', 'general_store = "x"'))
    assert privacy_statement(directory.privacy_ledger).startswith("NO CLAIM: the record of the")
    directory.config_path.write_text(config)
    few_path.write_bytes(kept)
    others = client_digests.ClientDigests(digests.salt_id, frozenset(["0" * 16, "1" * 16]))
    union = client_digests.ClientDigests(digests.salt_id, digests.digests | others.digests)
    client_digests.write(directory.rehearsed_client_digests, others)
    client_digests.write(directory.client_digests, union)
    assert "NO CLAIM" not in privacy_statement(directory.privacy_ledger)


@pytest.mark.slow
def test_resume_after_a_kill_repeats_the_same_release(run, store):
    """The last checkpoint is lost; the rounds after the one before are computed again."""
    _, rounds = read_ledger(run / "privacy_ledger.jsonl")
    checkpoints = sorted((run / "checkpoints").iterdir())
    checkpoints[-1].unlink()
    weights = (run / "model" / "weights.npz").read_bytes()
    train_federated(private_config(store, 6), run)
    assert read_ledger(run / "privacy_ledger.jsonl")[1] == rounds
    assert (run / "model" / "weights.npz").read_bytes() == weights


def test_ledger_and_model_of_a_run_have_its_id(run):
    run_id = origin.read_origin(RunDirectory(run)).run_id
    assert run_id
    assert read_ledger(run / "privacy_ledger.jsonl")[0].run_id == run_id
    description = json.loads((run / "model" / "model.json").read_text())
    assert (description["run_id"], description["private"]) == (run_id, True)


def test_the_model_of_another_run_is_not_covered(run, store, tmp_path):
    other = tmp_path / "other"
    train_federated(private_config(store, 1), other)
    shutil.rmtree(run / "model")
    (run / "model").symlink_to(other / "model")
    with pytest.raises(CheckFailed, match=r"model.json is the model of another run"):
        privacy_statement(run / "privacy_ledger.jsonl")


def test_a_run_with_devices_is_not_continued_on_the_store(store, tmp_path):
    """`train` in the directory of `serve-rounds` would record clients that were not trained on."""
    run = RunDirectory(tmp_path / "fleet")
    run.round_server.mkdir(parents=True)
    with pytest.raises(RunDirectoryError, match="is a run of `serve-rounds`"):
        train_federated(private_config(store, 1), run.path)
    assert [path.name for path in run.path.iterdir()] == ["round_server"]


def test_a_run_on_a_store_is_not_continued_with_devices(run, store):
    directory = RunDirectory(run)
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    config = private_config(store, 6)
    with (
        pytest.raises(RunDirectoryError, match="is a run on the clients of a store"),
        open_training(config, run, max_seats=3),
    ):
        pass
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    assert directory.validation_client_digests.exists()
