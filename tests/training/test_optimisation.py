"""Optimisers, schedules, averages, dropout and row correction in whole, stopped runs."""

import dataclasses
import json

import numpy as np
import pytest

from tests.support.fakes import tiny_config
from tests.training.test_federated import assert_same_run
from tff_keyboard.config import ConfigError
from tff_keyboard.models.saved_model import load_model
from tff_keyboard.privacy.ledger.ledger import read_ledger
from tff_keyboard.training import build
from tff_keyboard.training.central import train_central
from tff_keyboard.training.federated import train_federated

ALL_AT_ONCE = (
    "server.type=fedadam",
    'server.schedule={type="cosine", rounds=6, warmup_rounds=2, lowest=0.1}',
    "client.learning_rate=0.316",
    'client.schedule={type="cosine", rounds=5, warmup_rounds=1}',
    'averaging={type="exponential", decay=0.5}',
    "model.embedding_dropout=0.1",
    "model.output_dropout=0.2",
    "train.client_sampling=proportional",
    'aggregation.row_correction={type="fedsubavg", largest_factor=5}',
)
CENTRAL = (
    "central.type=adam",
    'central.schedule={type="cosine", rounds=5, warmup_rounds=1}',
    'averaging={type="exponential", decay=0.5, first_round=2}',
    "model.output_dropout=0.2",
    "client.batch_size=4",
)


def rows(run):
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def straight(store, tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "straight"
    train_federated(tiny_config(store, *ALL_AT_ONCE), path)
    return path


@pytest.mark.slow
def test_all_at_once_resumes_to_the_bit(store, straight, tmp_path):
    run = tmp_path / "run"
    train_federated(tiny_config(store, *ALL_AT_ONCE, "train.rounds=2"), run)
    as_recorded = "server.schedule.rounds=0"  # not the three rounds that it has by now
    train_federated(tiny_config(store, *ALL_AT_ONCE, as_recorded), run)
    assert_same_run(straight, run)
    for folder in ("model", "model_last"):
        one, two = (load_model(r / folder)[0].get_weights() for r in (straight, run))
        for a, b in zip(one, two, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.slow
def test_each_round_records_its_learning_rates(straight):
    found = rows(straight)
    server = [row["learning_rate/finalizer"] for row in found]
    client = [row["learning_rate/client_work"] for row in found]
    cosine_3 = 0.1 + 0.9 * (1 + np.cos(np.pi / 4)) / 2
    np.testing.assert_allclose(server, [0.005, 0.01, 0.01 * cosine_3], rtol=1e-6)
    cosine = [1.0, (1 + np.cos(np.pi / 4)) / 2, 0.5]
    np.testing.assert_allclose(client, [0.316 * x for x in cosine], rtol=1e-6)
    assert all(row["aggregator/inner/inner/rows/largest_factor"] <= 5 for row in found)
    assert all(row["aggregator/inner/inner/rows/words_touched"] > 10 for row in found)


@pytest.mark.slow
def test_average_is_validated_and_saved_next_to_the_last_model(straight):
    last_row = rows(straight)[-1]
    average, last = (last_row[f"evaluation/{part}perplexity"] for part in ("", "last/"))
    assert average != last
    models = [load_model(straight / folder)[0] for folder in ("model", "model_last")]
    differences = [
        np.abs(a - b).max() for a, b in zip(*(m.get_weights() for m in models), strict=True)
    ]
    assert 0 < max(differences) < 0.1
    assert models[0].options["output_dropout"] == 0.2


@pytest.mark.slow
def test_an_average_costs_no_privacy(store, tmp_path, monkeypatch):
    """What is released before is only worked on: under one noise, ledger and iterates are equal."""
    monkeypatch.setattr(build, "numerics_config", lambda config: {})
    private = (
        "train.final_model=last",  # the best rounds of the two may differ
        "aggregation.client_weighting=uniform",
        'aggregation.privacy={type="gaussian", noise_multiplier=1.0, clip_norm=0.5, '
        f'delta=1e-4, fixed_nonce="{"0123456789abcdef" * 2}"}}',
    )
    averaged = 'averaging={type="exponential", decay=0.5}'
    train_federated(tiny_config(store, *private), tmp_path / "plain")
    train_federated(tiny_config(store, *private, averaged), tmp_path / "averaged")
    paths = [tmp_path / run / "privacy_ledger.jsonl" for run in ("plain", "averaged")]
    (header, rounds), (other, other_rounds) = map(read_ledger, paths)
    assert dataclasses.replace(header, run_id=other.run_id) == other
    assert rounds == other_rounds
    plain, average, last = (
        load_model(tmp_path / folder)[0].get_weights()
        for folder in ("plain/model", "averaged/model", "averaged/model_last")
    )
    for a, b in zip(plain, last, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(average, last, strict=True))
    last_row = rows(tmp_path / "averaged")[-1]
    assert {"evaluation/perplexity", "evaluation/last/perplexity"} <= set(last_row)


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["fedyogi", "fedadagrad"])
def test_other_adaptive_servers_train_and_resume(store, tmp_path, optimizer):
    overrides = [f"server.type={optimizer}", "client.learning_rate=0.316"]
    train_federated(tiny_config(store, *overrides), tmp_path / "straight")
    train_federated(tiny_config(store, *overrides, "train.rounds=2"), tmp_path / "run")
    train_federated(tiny_config(store, *overrides), tmp_path / "run")
    assert_same_run(tmp_path / "straight", tmp_path / "run")


@pytest.mark.slow
def test_packs_and_one_by_one_train_with_the_same_rates(store, tmp_path):
    """Sums are grouped by packs: not the same bits, the key of the mask of dropout among them."""
    found = []
    for per_pack in (1, 2):
        overrides = [*ALL_AT_ONCE, f"execution.clients_per_pack={per_pack}"]
        overrides += [f"model.{part}_dropout=0" for part in ("embedding", "output")]
        train_federated(tiny_config(store, *overrides), tmp_path / str(per_pack))
        found.append(rows(tmp_path / str(per_pack)))
    for one, other in zip(*found, strict=True):
        for part in ("finalizer", "client_work"):
            assert one[f"learning_rate/{part}"] == other[f"learning_rate/{part}"]
        name = "client_work/train/nll"
        assert one[name] == pytest.approx(other[name], rel=1e-4)


@pytest.mark.slow
def test_central_training_with_adam_resumes_to_the_bit(store, tmp_path):
    for name, total, rounds in (("straight", 3, 5), ("run", 2, 5), ("run", 3, 0)):  # 0: as recorded
        overrides = [*CENTRAL, f"train.rounds={total}", f"central.schedule.rounds={rounds}"]
        train_central(tiny_config(store, *overrides), tmp_path / name)
    assert_same_run(tmp_path / "straight", tmp_path / "run")
    found = [row["learning_rate/optimizer"] for row in rows(tmp_path / "run")]
    cosine = [1.0, (1 + np.cos(np.pi / 4)) / 2, 0.5]
    np.testing.assert_allclose(found, [0.003 * x for x in cosine], rtol=1e-6)
    nats = [r["client_work/train/nll"] / r["tokens"] for r in rows(tmp_path / "run")]
    assert nats[-1] < nats[0]


@pytest.mark.slow
def test_best_metric_may_belong_to_the_last_model(store, tmp_path):
    plain = tiny_config(store, "train.best_metric=last/perplexity")
    with pytest.raises(ConfigError, match=r"`train\.best_metric` must be one of"):
        train_federated(plain, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "overrides, reason",
    [
        (["aggregation.row_correction.type=fedsubavg", "client.type=fedsgd"], "do not send"),
        (["aggregation.row_correction.type=fedsubavg", "aggregation.rule.type=fedmed"], "not send"),
        (
            [
                "aggregation.row_correction.type=fedsubavg",
                "aggregation.privacy.type=gaussian",
                "aggregation.client_weighting=uniform",
            ],
            "noise in rare rows would grow",
        ),
        (
            [
                "train.client_sampling=proportional",
                "aggregation.privacy.type=gaussian",
                "aggregation.client_weighting=uniform",
            ],
            "clients are sampled with the same probability",
        ),
        (
            ["train.client_sampling=proportional", "client.max_examples=0"],
            "requires `client.max_examples` > 0",
        ),
        (
            ["train.max_sampling_ratio=3.0"],
            "has no effect with `train.client_sampling` = 'uniform'",
        ),
        (["train.max_sampling_ratio=0.5"], r"`train.max_sampling_ratio` must be in \[1, 100\]"),
        (["train.max_sampling_ratio=nan"], r"`train.max_sampling_ratio` must be in \[1, 100\]"),
        (["train.max_sampling_ratio=1e9"], r"`train.max_sampling_ratio` must be in \[1, 100\]"),
        *(
            (
                [
                    "train.client_sampling=proportional",
                    "train.max_sampling_ratio=0.0",
                    f"aggregation.rule.type={rule}",
                ],
                "no aggregator resists a majority",
            )
            for rule in ("bounded_trimmed_mean", "trimmed_mean", "median")
        ),
        (["client.type=fedsgd", "client.schedule.warmup_rounds=3"], "has no effect with"),
    ],
)
def test_conflicting_options_are_rejected_with_the_reason(store, overrides, reason):
    with pytest.raises(ConfigError, match=reason) as error:
        tiny_config(store, *overrides)
    assert "\n" not in str(error.value)
