"""Whole runs of FedProx and MimeLite: validation, resume, packs, schedules, refusals."""

import itertools
import json
import shutil

import numpy as np
import pytest

from tests.support.fakes import tiny_config
from tests.support.user_models import gru
from tests.training.test_federated import assert_same_run
from tff_keyboard.config import ConfigError
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.training import build
from tff_keyboard.training.federated import train_federated

PROX = "client={type='fedprox', proximal_strength=0.5, learning_rate=0.5, max_examples=8, epochs=2}"
MIME = "client={type='mimelite', learning_rate=0.1, max_examples=8, batch_size=4}"
OF_PAPER = "server={type='fedavg', learning_rate=1.0}"
COHORTS = ("train.over_selection=1.4", "train.dropout_rate=0.2")
SCHEDULE = "client.schedule={type='cosine', rounds=5, warmup_rounds=1}"
ALGORITHMS = {
    "fedprox": (PROX, *COHORTS),
    "mimelite": (MIME, OF_PAPER, *COHORTS),
    "mimelite, robust": (MIME, OF_PAPER, "aggregation.rule.type=median"),
    "scheduled mimelite": (
        MIME,
        OF_PAPER,
        SCHEDULE,
        "aggregation.protection.type=adaptive",
        "aggregation.client_weighting=uniform",
    ),
}


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def weights(run):
    return load_model(run / "model")[0].get_weights()


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_trains_validates_and_resumes_to_the_bit(store, tmp_path, name):
    overrides = ALGORITHMS[name]
    train_federated(tiny_config(store, *overrides), tmp_path / "straight")
    train_federated(tiny_config(store, *overrides, "train.rounds=2"), tmp_path / "run")
    train_federated(tiny_config(store, *overrides), tmp_path / "run")
    assert_same_run(tmp_path / "straight", tmp_path / "run")
    rounds = rows(tmp_path / "straight")
    assert all(row["rejected"] == 0 and row["tokens"] > 0 for row in rounds)
    assert np.isfinite(rounds[-1]["evaluation/perplexity"])
    # The tokens of a round are counted once, although MimeLite reads them twice.
    assert [row["client_work/train/tokens"] for row in rounds] == [row["tokens"] for row in rounds]
    if SCHEDULE in overrides:
        cosine = [1.0, (1 + np.cos(np.pi / 4)) / 2, 0.5]
        rates = [row["learning_rate/client_work"] for row in rounds]
        np.testing.assert_allclose(rates, [0.1 * x for x in cosine], rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [(PROX,), (MIME, OF_PAPER)], ids=["fedprox", "mimelite"])
def test_the_loss_falls_if_all_clients_train_on_all_their_messages(store, tmp_path, overrides):
    """All rounds have the same messages, so that the losses can be compared."""
    clients = len(ClientStore(store).client_ids("train"))
    every = (f"train.clients_per_round={clients}", "client.max_examples=0", "train.rounds=4")
    train_federated(tiny_config(store, *overrides, *every), tmp_path / "run")
    rounds = rows(tmp_path / "run")
    assert len({row["tokens"] for row in rounds}) == 1
    nats = [row["client_work/train/nll"] / row["client_work/train/tokens"] for row in rounds]
    assert all(second < first for first, second in itertools.pairwise(nats)), nats


@pytest.mark.slow
def test_the_schedule_of_mimelite_changes_the_steps(store, tmp_path):
    plain = (MIME, OF_PAPER, "train.rounds=2")
    train_federated(tiny_config(store, *plain), tmp_path / "plain")
    train_federated(tiny_config(store, *plain, SCHEDULE), tmp_path / "scheduled")
    first, second = (rows(tmp_path / name) for name in ("plain", "scheduled"))
    key = "client_work/train/nll"
    assert first[0][key] == second[0][key]
    different = zip(weights(tmp_path / "plain"), weights(tmp_path / "scheduled"), strict=True)
    assert any((a != b).any() for a, b in different)


@pytest.mark.slow
def test_fedprox_of_strength_zero_is_fedavg_to_the_bit(store, tmp_path):
    client = "batch_size=4, max_examples=8, epochs=2"
    for name, table in {
        "prox": f"client={{type='fedprox', proximal_strength=0.0, {client}}}",
        "average": f"client={{type='fedavg', {client}}}",
    }.items():
        train_federated(tiny_config(store, table), tmp_path / name)
    for a, b in zip(weights(tmp_path / "prox"), weights(tmp_path / "average"), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_the_first_step_may_be_shared(store, tmp_path):
    for first_step in ("shared", "separate"):
        config = tiny_config(store, PROX, f"execution.first_step={first_step}", "train.rounds=1")
        train_federated(config, tmp_path / first_step)
    for a, b in zip(weights(tmp_path / "shared"), weights(tmp_path / "separate"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_private_fedprox_trains(store, tmp_path):
    private = (
        "aggregation.client_weighting=uniform",
        "aggregation.privacy={type='gaussian', clip_norm=0.1, noise_multiplier=0.5}",
        "train.rounds=1",
    )
    train_federated(tiny_config(store, PROX, *private), tmp_path / "run")
    [row] = rows(tmp_path / "run")
    assert row["rejected"] == 0


@pytest.mark.slow
def test_bytes_of_mimelite_are_twice_those_of_fedavg(store, tmp_path):
    for name, client in {"mime": MIME, "average": "client.max_examples=8"}.items():
        train_federated(tiny_config(store, client, "train.rounds=1"), tmp_path / name)
    [mime], [average] = rows(tmp_path / "mime"), rows(tmp_path / "average")
    for key in ("bytes_up", "bytes_down"):
        assert mime[key] == 2 * average[key]


@pytest.mark.slow
@pytest.mark.parametrize("client", [PROX, MIME])
def test_a_model_of_the_user_trains(store, tmp_path, client):
    """Its embedding has sparse gradients."""
    shutil.copy(gru.__code__.co_filename, tmp_path / "mine.py")
    model = f"model={{type='{tmp_path / 'mine.py'}:gru', units=6}}"
    config = tiny_config(store, model, client, "train.rounds=2")
    train_federated(config, tmp_path / "run")
    assert rows(tmp_path / "run")[-1]["rejected"] == 0


def test_attackers_in_mimelite_are_refused(store):
    config = tiny_config(store, MIME)
    model = build.build_initial_model(config, ClientStore(store).vocabulary)
    with pytest.raises(ConfigError, match=r"'mimelite' cannot be used with simulated attackers"):
        build.build_process(config, model, wrap_client_work=lambda work: work)


def test_attackers_in_fedprox_are_simulated(store):
    config = tiny_config(store, PROX)
    model = build.build_initial_model(config, ClientStore(store).vocabulary)
    wrapped = []
    build.build_process(config, model, wrap_client_work=lambda work: wrapped.append(work) or work)
    assert len(wrapped) == 1
