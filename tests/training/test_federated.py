"""The train and evaluate tasks on a shrunk demo config: end to end, resumed, killed, refused."""

import dataclasses
import hashlib
import json
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from tasks.evaluate import evaluate as evaluate_task
from tasks.train import train as train_task
from tests.support.fakes import TINY, tiny_config
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.data.preparing.prepare import prepare as prepare_store
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.metrics.metric_table import FEDERATED_METRICS
from tff_keyboard.privacy.claims.guarantee import total_guarantee
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger.ledger import read_ledger, refuse_shared_noise
from tff_keyboard.privacy.mechanisms.noise_key import NoiseKeyError
from tff_keyboard.storage.errors import RunDirectoryError
from tff_keyboard.storage.run_directory import RunDirectory
from tff_keyboard.training.federated import train_federated
from tff_keyboard.training.round_lines import RoundLines


def digest(run):
    return {
        name: hashlib.sha256((run / name).read_bytes()).hexdigest()
        for name in ("metrics.jsonl", "metrics.csv", "model/vocabulary.txt")
    }, {k: v for k, v in np.load(run / "model" / "weights.npz").items()}


def assert_same_run(first, second):
    (files_a, weights_a), (files_b, weights_b) = digest(first), digest(second)
    assert files_a == files_b
    assert weights_a.keys() == weights_b.keys()
    for name in weights_a:
        np.testing.assert_array_equal(weights_a[name], weights_b[name], err_msg=name)


ROUNDS = 8


def whole(store):
    return tiny_config(store, f"train.rounds={ROUNDS}")


@pytest.fixture(scope="module")
def folder(store, tmp_path_factory):
    """A finished run, `straight`, and a copy of what it was after round 2, `killed`."""
    folder = tmp_path_factory.mktemp("runs")
    say = RoundLines.__call__

    def say_and_copy(lines, done, *note):
        say(lines, done, *note)
        if done.round_num == 2:
            shutil.copytree(folder / "straight", folder / "killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundLines, "__call__", say_and_copy)
        train_federated(whole(store), folder / "straight")
    return folder


@pytest.fixture(scope="module")
def finished_run(folder):
    return folder / "straight"


def test_run_directory_contains_files_of_later_tasks(finished_run):
    rows = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["round"] for row in rows] == list(range(1, ROUNDS + 1))
    assert all(row["clients"] == 3 and row["tokens"] > 0 for row in rows)
    evaluated = [row["round"] for row in rows if "evaluation/recall_at_1_no_eos" in row]
    assert evaluated == [2, 4, 6, 8]
    saved = config_lib.load_of_run(finished_run / "config.toml")
    assert saved.train.rounds == ROUNDS
    environment = json.loads((finished_run / "environment.json").read_text())
    assert environment["packages"]["tensorflow-federated"] == "0.87.0"
    assert json.loads((finished_run / "model" / "model.json").read_text())["rounds"] == ROUNDS
    assert list((finished_run / "tensorboard").iterdir())
    header = (finished_run / "timings.csv").read_text().splitlines()[0]
    assert {"data_seconds", "compute_seconds", "aggregation_seconds"} <= set(header.split(","))


def test_training_lowers_the_loss(finished_run):
    rows = [json.loads(line) for line in (finished_run / "metrics.jsonl").read_text().splitlines()]
    nats = [r["client_work/train/nll"] / r["client_work/train/tokens"] for r in rows]
    assert nats[-1] < nats[0] - 0.1


@pytest.mark.slow
def test_killed_training_resumes_to_the_bit(store, folder, capsys):
    train_federated(whole(store), folder / "killed")
    out = capsys.readouterr().out
    assert out.count(f"Resuming after round 2 of {ROUNDS}.") == 1
    assert re.findall(r"round +(\d+)  validation", out) == ["4", "6", "8"]
    assert_same_run(folder / "straight", folder / "killed")


@pytest.mark.slow
def test_stop_after_round_two_and_resume_is_bit_identical(store, finished_run, tmp_path):
    train_federated(tiny_config(store, "train.rounds=2"), tmp_path / "run")
    train_federated(whole(store), tmp_path / "run")
    # Round 2 was the last of the first part and evaluated anyway, so the rows agree too.
    assert_same_run(finished_run, tmp_path / "run")


@pytest.mark.slow
def test_finished_run_does_not_change(store, finished_run, capsys):
    before = digest(finished_run)
    train_federated(whole(store), finished_run)
    assert digest(finished_run)[0] == before[0]
    assert "already done" in capsys.readouterr().out


@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit(store, tmp_path):
    for threads in (1, 3):
        overrides = [f"execution.threads={threads}", "train.rounds=2"]
        train_federated(tiny_config(store, *overrides), tmp_path / str(threads))
    assert_same_run(tmp_path / "1", tmp_path / "3")


@pytest.mark.slow
def test_a_run_keeps_its_packs(store, tmp_path):
    one_by_one = "execution.clients_per_pack=1"
    train_federated(tiny_config(store, one_by_one, "train.rounds=2"), tmp_path / "run")
    with pytest.raises(Exception, match=r"execution\.clients_per_pack` was 1, and is 2 now"):
        train_federated(tiny_config(store, "execution.clients_per_pack=2"), tmp_path / "run")


def test_a_changed_config_is_refused(store, finished_run):
    config = tiny_config(store, "client.learning_rate=0.1", f"train.rounds={ROUNDS}")
    with pytest.raises(Exception, match=r"client\.learning_rate"):
        train_federated(config, finished_run)


@pytest.mark.slow
def test_options_train_together(store, tmp_path):
    overrides = [
        "server.type=fedadam",
        "server.learning_rate=0.01",
        "train.over_selection=1.4",
        "train.dropout_rate=0.2",
        "train.min_separation_rounds=2",
        "aggregation.client_weighting=uniform",
        "client.epochs=2",
        "client.momentum=0.5",
        "model.type=gru",
    ]
    row = train_federated(tiny_config(store, "train.rounds=2", *overrides), tmp_path / "run")
    assert np.isfinite(row["evaluation/perplexity"])
    assert row["rejected"] == 0


def test_evaluate_reports_clients_outside_training(finished_run, capsys):
    result = evaluate(finished_run, all=True)
    store = ClientStore(result.text.store_path)
    people = store.client_ids("held_out")
    assert list(result.text.people) == sorted(map(store.pseudonym, people))
    typed = sum(len(message) for person in people for message in store.words("held_out", person))
    assert result.text.words + result.text.words_left_out == typed
    metric = result.metrics["recall_at_3_no_eos"]
    assert metric.low <= metric.value <= metric.high
    assert metric.value == pytest.approx(result.sums["hits_at_3"].sum() / result.text.words)
    content = json.loads((finished_run / "evaluation_held_out.json").read_text())
    assert content == result.to_json()
    shown = capsys.readouterr().out
    for part in ("top-3 recall", "worst tenth", "first word", "heavy", "calibration error"):
        assert part in shown.replace("clients who typed half of the words", "heavy")


@pytest.mark.slow
def test_evaluate_agrees_with_the_validation_of_training(finished_run, tmp_path):
    """The one counts in this process, the other through TFF on the clients."""
    rows = [json.loads(line) for line in (finished_run / "metrics.jsonl").open()]
    rows = [row for row in rows if "evaluation/perplexity" in row]
    best = max(rows, key=lambda row: row["evaluation/recall_at_1_no_eos"])
    found = evaluate(finished_run, clients="validation", out=tmp_path / "validation.json")
    for name in FEDERATED_METRICS:
        assert found.metrics[name].value == pytest.approx(best[f"evaluation/{name}"], rel=1e-5)


def evaluate(run, **options):
    """Runs the task on a run directory."""
    return evaluate_task.run(evaluate_task.Options(run_dir=run, **options))


@pytest.mark.slow
def test_evaluate_refuses_a_store_with_another_vocabulary(finished_run, tmp_path):
    other = tmp_path / "other"
    prepare_store(tiny_config(other, "data.seed=9").data, other)
    with pytest.raises(Exception, match="has a different vocabulary"):
        evaluate(finished_run, store=other)


@pytest.mark.slow
def test_kill_9_and_again_is_bit_identical(store, finished_run, tmp_path):
    """The small version of `kill_test.py`; `test_kill_at_random_moments` kills often."""
    run = tmp_path / "killed"
    command = [sys.executable, "-m", "tasks", "train", "--config=configs/demo.toml"]
    overrides = [*TINY, f"data.store={store}", f"train.rounds={ROUNDS}"]
    command += [f"--set={override}" for override in overrides]
    command.append(f"--workdir={run}")
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + 240
    rows = run / "metrics.jsonl"
    while process.poll() is None and time.monotonic() < deadline:
        if rows.exists() and rows.read_bytes().splitlines():
            break
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command, stdout=log, stderr=log, check=True)
    assert_same_run(finished_run, run)


def test_missing_workdir_is_a_usage_error(capsys):
    assert cli.launch(train_task, ["--config=configs/demo.toml"]) == cli.USAGE
    assert "--workdir" in capsys.readouterr().err


def test_missing_store_is_one_line(tmp_path, capsys):
    arguments = [f"--workdir={tmp_path / 'run'}", f"--store={tmp_path / 'nowhere'}"]
    assert cli.launch(train_task, arguments) == cli.BAD_INPUT
    assert capsys.readouterr().err.count("\n") == 1
    assert not pathlib.Path(tmp_path / "run").exists()


DP = [
    "aggregation.client_weighting=uniform",
    "aggregation.privacy.clip_norm=0.5",
    "aggregation.privacy.noise_multiplier=0.1",
]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["gaussian", "tree", "blt"])
def test_private_training_resumes_to_the_bit_with_its_ledger(store, tmp_path, mechanism):
    overrides = [*DP, f"aggregation.privacy.type={mechanism}"]
    runs = [tmp_path / "straight", tmp_path / "stopped"]
    train_federated(tiny_config(store, *overrides), runs[0])
    runs[1].mkdir()  # the nonce is drawn once a run: the second is given the first's
    (runs[1] / "noise_nonce").write_bytes((runs[0] / "noise_nonce").read_bytes())
    if mechanism == "gaussian":  # the coefficients of the others are those of the rounds to be run
        train_federated(tiny_config(store, *overrides, "train.rounds=2"), runs[1])
    else:
        _stop_after(2, tiny_config(store, *overrides), runs[1])
    train_federated(tiny_config(store, *overrides, "train.checkpoint_every=2"), runs[1])
    assert_same_run(*runs)
    headers, rounds = zip(*(read_ledger(run / "privacy_ledger.jsonl") for run in runs), strict=True)
    assert headers[0] == dataclasses.replace(headers[1], run_id=headers[0].run_id)
    assert rounds[0] == rounds[1]
    assert len(rounds[0]) >= 2
    with pytest.raises(RunDirectoryError, match="share a noise key"):
        refuse_shared_noise([run / "privacy_ledger.jsonl" for run in runs])
    assert_no_noise_in_checkpoints(runs[0])


def assert_no_noise_in_checkpoints(run):
    """The tree's sum of noise lay in each: whoever had one had the exact sums."""
    checkpoint = next((run / "checkpoints").iterdir()).read_bytes()
    leaves = json.loads(checkpoint.split(b"\n")[2])["leaves"]
    large = {leaf["name"].split("/")[1] for leaf in leaves if np.prod(leaf["shape"]) > 1}
    assert large == {"global_model_weights", "finalizer"}  # weights and the server's momentum


def _stop_after(round_num, config, path):
    def stop(line, done):
        if done.round_num == round_num:
            raise InterruptedError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundLines, "__call__", stop)
        with pytest.raises(InterruptedError):
            train_federated(config, path)


@pytest.mark.slow
def test_two_runs_of_one_config_share_no_noise(store, tmp_path):
    config = tiny_config(store, *DP, "aggregation.privacy.type=gaussian", "train.rounds=1")
    for name in ("one", "other"):
        train_federated(config, tmp_path / name)
    weights = [digest(tmp_path / name)[1] for name in ("one", "other")]
    assert all(not np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])
    cohorts = [RunDirectory(tmp_path / name).all_rows()[0]["cohort"] for name in ("one", "other")]
    assert cohorts[0] != cohorts[1]


@pytest.mark.slow
def test_a_private_run_without_its_nonce_is_one_line(store, tmp_path, capsys):
    run = tmp_path / "run"
    overrides = [*DP, "aggregation.privacy.type=gaussian"]
    train_federated(tiny_config(store, *overrides, "train.rounds=1"), run)
    assert stat.S_IMODE((run / "noise_nonce").stat().st_mode) == 0o600
    (run / "noise_nonce").unlink()
    capsys.readouterr()
    with pytest.raises(NoiseKeyError, match="is missing, but rounds were released") as error:
        train_federated(tiny_config(store, *overrides), run)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_private_run_from_a_model_of_the_same_clients_makes_no_claim(store, tmp_path):
    """It printed epsilon 0.15 where the truth is infinite."""
    train_federated(tiny_config(store, "train.rounds=1"), tmp_path / "plain")
    start = f"model.initial_model={tmp_path / 'plain'}"
    private = (*DP, "aggregation.privacy.type=gaussian", "train.rounds=1")
    train_federated(tiny_config(store, *private, start), tmp_path / "on_top")
    text = privacy_statement(tmp_path / "on_top" / "privacy_ledger.jsonl")
    assert text.startswith("NO CLAIM")
    assert "all of these clients" in text
    train_federated(tiny_config(store, *private), tmp_path / "first")
    start = f"model.initial_model={tmp_path / 'first' / 'model'}"
    train_federated(tiny_config(store, *private, start), tmp_path / "second")
    epsilons = []
    for name in ("first", "second"):
        header, rounds = read_ledger(tmp_path / name / "privacy_ledger.jsonl")
        epsilons.append(total_guarantee(header, len(rounds)).epsilon)
    assert epsilons[1] > 1.2 * epsilons[0]


@pytest.mark.slow
def test_a_private_run_withholds_the_training_metrics(store, tmp_path):
    private = (*DP, "aggregation.privacy.type=gaussian", "train.rounds=2")
    train_federated(tiny_config(store, *private), tmp_path / "one")
    rows = (tmp_path / "one" / "metrics.jsonl").read_text().splitlines()
    assert not {"tokens", "cohort", "client_work/train/nll"} & json.loads(rows[0]).keys()
    assert "tokens" in json.loads(rows[0])["withheld"].split()
    secret = tmp_path / "one" / "withheld_metrics.jsonl"
    boards = (tmp_path / "one" / "tensorboard").iterdir()
    telling = [secret, tmp_path / "one" / "timings.csv", *boards]
    assert {stat.S_IMODE(path.stat().st_mode) for path in telling} == {0o600}
    assert json.loads(secret.read_text().splitlines()[0])["tokens"] > 0
