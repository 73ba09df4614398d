"""The estimated cost of a study before it begins."""

import dataclasses
import pathlib

import numpy as np
import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.fine_tuning.rehearsal import Rehearsal
from tff_keyboard.data.store.client_sizes import ClientSizes
from tff_keyboard_lab.study.plan import plan
from tff_keyboard_lab.study.plan.study_file import Arm, Budget, Study
from tff_keyboard_lab.study.runs import estimate
from tff_keyboard_lab.tests.study.runs.test_budget import made_run

STORES = {
    "data/s": estimate.Text(ClientSizes(((30.0, 100),)), tokens=8.0),
    "data/g": estimate.Text(ClientSizes(((10.0, 5),)), tokens=20.0),
}


def run_of(tmp_path, *settings, task="train"):
    (tmp_path / "c.toml").write_text("[data]\nstore = 'data/s'\n")
    arm = Arm(name="control", config="c.toml", task=task, set=settings)
    study = Study(question="?", control="control", arms=(arm,))
    (run,) = plan.runs_of(study, tmp_path, tmp_path / "runs")
    return run


@pytest.mark.parametrize(
    "task, most, epochs, expected",
    [
        ("train", 10, 1, 4 * 5 * 10 * 8),
        ("train", 10, 3, 4 * 5 * 10 * 8 * 3),
        ("train", 64, 1, 4 * 5 * 30 * 8),  # nobody has more than they wrote
        ("train", 0, 2, 4 * 5 * 30 * 8 * 2),  # 0 is all, not none
        ("train-server", 64, 1, 4 * 5 * 64 * 8),
    ],
)
def test_tokens_are_those_of_the_average_person(tmp_path, task, most, epochs, expected):
    run = run_of(
        tmp_path,
        "train.rounds=4",
        "train.clients_per_round=5",
        f"client.max_examples={most}",
        f"client.epochs={epochs}",
        task=task,
    )
    assert estimate.tokens_of(run, dict(STORES)) == expected


@pytest.mark.parametrize(
    "settings, expected",
    [
        (["client.max_examples=8"], (90 * 4 + 10 * 8) / 100),  # not min(7.6, 8)
        (["client.max_examples=0"], (90 * 4 + 10 * 40) / 100),
        # Who has 40 messages fills five rounds of eight.
        (
            ["client.max_examples=8", 'train.client_sampling="proportional"'],
            (90 * 4 + 50 * 8) / 140,
        ),
        # 2.25 is twice the average of 90 times 1 and 10 times 2.25.
        (
            [
                "client.max_examples=8",
                'train.client_sampling="proportional"',
                "train.max_sampling_ratio=2.0",
            ],
            (90 * 4 + 22.5 * 8) / 112.5,
        ),
    ],
)
def test_people_differ(tmp_path, settings, expected):
    stores = {"data/s": estimate.Text(ClientSizes(((4.0, 90), (40.0, 10))), tokens=5.0)}
    run = run_of(tmp_path, "train.rounds=2", "train.clients_per_round=3", *settings)
    assert estimate.tokens_of(run, stores) == pytest.approx(2 * 3 * 5 * expected)


@pytest.mark.parametrize(
    "most, longest, expected",
    [
        (10, 4, 10 * 4),  # ten sequences of a message's parts
        (64, 4, 30 * 8),  # 64 sequences of 4 would be more than all there is
        (0, 4, 30 * 8),
    ],
)
def test_long_messages_are_cut_in_sequences(tmp_path, most, longest, expected):
    run = run_of(
        tmp_path,
        "train.rounds=1",
        "train.clients_per_round=1",
        f"client.max_examples={most}",
        f"data.max_length={longest}",
    )
    assert estimate.tokens_of(run, dict(STORES)) == expected


def rehearsing(tmp_path, portion, *settings, task="train"):
    method = f'fine_tuning={{general_store="data/g",method={{type="rehearsal",portion={portion}}}}}'
    clients = ("train.rounds=1", "train.clients_per_round=1")
    return run_of(tmp_path, method, *clients, *settings, task=task)


@pytest.mark.parametrize(
    "portion, settings, expected",
    [
        (0.5, ["client.max_examples=0"], 30 * 8 + 30 * 20),
        (0.25, ["client.max_examples=0"], 30 * 8 + 10 * 20),
        (0.75, ["client.max_examples=0"], 30 * 8 + 50 * 20),  # 90, but the corpus has 50
        (0.75, ["client.max_examples=10"], 10 * 8 + 30 * 20),
        (0.5, ["client.max_examples=10", "client.epochs=3"], 3 * 10 * (8 + 20)),
        # 20 sequences of at most 10 tokens; without a limit messages are trained on as a whole.
        (0.5, ["client.max_examples=10", "data.max_length=10"], 20 * 10),
        (0.5, ["client.max_examples=0", "data.max_length=10"], 30 * 8 + 30 * 20),
    ],
)
def test_rehearsal_trains_on_general_messages_too(tmp_path, portion, settings, expected):
    run = rehearsing(tmp_path, portion, *settings)
    assert estimate.tokens_of(run, dict(STORES)) == pytest.approx(expected)


@pytest.mark.parametrize("most, general", [(64, 50), (40, 40)])  # the corpus has 50
def test_pooled_training_rehearses_by_rounds(tmp_path, most, general):
    run = rehearsing(tmp_path, 0.5, f"client.max_examples={most}", task="train-server")
    assert estimate.tokens_of(run, dict(STORES)) == most * 8 + general * 20


@pytest.mark.parametrize("portion", [0.1, 0.25, 0.5, 0.6, 0.75])
def test_as_many_general_messages_as_rehearsal_draws(tmp_path, portion):
    class Corpus:
        vocabulary = ()

        def all_messages(self, population):
            return [np.zeros(19, np.int32)] * 50

    drawn = Rehearsal(Corpus(), portion).num_messages(30)
    run = rehearsing(tmp_path, portion, "client.max_examples=0")
    general = (estimate.tokens_of(run, dict(STORES)) - 30 * 8) / 20
    assert general == pytest.approx(drawn, abs=0.5)  # it rounds


@pytest.fixture
def stores(monkeypatch):
    monkeypatch.setattr(estimate, "_text", lambda store, stores: STORES[store])


TWO_HOURS = ("train.rounds=6000", "train.clients_per_round=20")


def test_hours_are_at_the_assumed_rate_before_the_first_round(tmp_path, stores):
    run = run_of(tmp_path, *TWO_HOURS)
    assert estimate.measured_rate([run]) == 0
    text = estimate.plan_text([run], jobs=1)
    assert (
        "1 runs, 0 finished; about 28.8 M tokens to go, 2.0 hours at 4,000 tokens/s and 20 s "
        in text
    )
    assert "0/1" in text


def test_extra_rounds_do_not_reduce_the_estimate(tmp_path, stores):
    run = run_of(tmp_path, "train.rounds=2")
    made_run(run.path, (100, 200, 300))
    assert "about 0.0 M tokens to go, 1 minute" in estimate.plan_text([run], jobs=1)


def test_runs_on_one_machine_share_it(tmp_path, stores):
    run = run_of(tmp_path, *TWO_HOURS)
    other = dataclasses.replace(run, path=run.path.with_name("other"))
    assert "4 at a time, 0 finished" in (text := estimate.plan_text([run, other], jobs=4))
    assert "at most 4.0 hours at 4,000 tokens/s per run, because they share" in text


@pytest.mark.parametrize(
    "settings, expected",
    [
        (["engine=ray"], "2.0 hours at 4,000 tokens/s per run, each on its own node"),
        (["engine=ray", "cluster.address=local"], "at most 4.0 hours"),  # a cluster of one
    ],
)
def test_runs_on_nodes_do_not(tmp_path, stores, settings, expected):
    run = run_of(tmp_path, *TWO_HOURS, *(f"execution.{setting}" for setting in settings))
    other = dataclasses.replace(run, path=run.path.with_name("other"))
    assert expected in estimate.plan_text([run, other], jobs=2)


def waiting(**after):
    """Returns a run for each name; the value is the name of the run that it waits for."""
    config = config_lib.RunConfig()
    return [
        plan.Run(
            arm=name,
            point="",
            seed=1,
            path=pathlib.Path(name),
            task="train",
            config_file=pathlib.Path("c.toml"),
            overrides=(),
            config=config,
            after=pathlib.Path(before) if before else None,
        )
        for name, before in after.items()
    ]


@pytest.mark.parametrize(
    "jobs, hours, expected",
    [
        (2, {"a": 1.0, "b": 2.0, "c": 5.0}, 5.0),  # c alone takes as long
        (2, {"a": 4.0, "b": 4.0, "c": 4.0}, 8.0),  # b waits for a, c is done beside them
        (3, {"a": 4.0, "b": 4.0, "c": 4.0}, 8.0),
        (2, {"b": 4.0, "c": 4.0}, 4.0),  # a is finished
        (2, {"a": 1.0, "b": 1.0, "c": 1.0, "d": 9.0, "e": 9.0}, 10.5),
    ],
)
def test_nodes_do_not_shorten_a_chain(jobs, hours, expected):
    runs = waiting(a=None, b="a", c=None, d=None, e=None)
    paths = {pathlib.Path(name): value for name, value in hours.items()}
    assert estimate.hours_on_nodes(runs, paths, jobs) == expected


def test_the_rate_is_of_rounds_with_tokens_and_time(tmp_path):
    run = run_of(tmp_path)
    made_run(run.path, (100, 200, 300), "1,1.0,10\n3,1.0,30\n4,1.0,999\n")
    assert estimate.measured_rate([run]) == pytest.approx(400 / 40)


def test_a_budget_is_compared_with_what_is_to_go(tmp_path, stores):
    run = run_of(tmp_path, *TWO_HOURS)
    other = made_run(tmp_path / "other", (5_000_000,), "1,1.0,1800\n")
    text = estimate.plan_text(
        [run], jobs=1, limit=Budget(hours=2.0, tokens_m=40.0), directories=[other, run.path]
    )
    assert text.endswith(
        "\nBudget: 0.50 of 2.00 hours used, 2.00 to go: 0.50 hours too few; "
        "5.00 of 40.00 M tokens used, 28.80 to go: enough."
    )
