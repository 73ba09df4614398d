"""The privacy task: statements of several runs, and plans for a target."""

import dataclasses

import pytest

from tasks.privacy import privacy
from tests.support.fakes import ledger_header
from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage.errors import RunDirectoryError, UsageError

SCHEDULE = ("train.rounds=40", "train.clients_per_round=10", "train.min_separation_rounds=8")


def run_with_ledger(path, key_id):
    ledger = PrivacyLedger(
        path / "privacy_ledger.jsonl", dataclasses.replace(ledger_header(), key_id=key_id)
    )
    ledger.record(1, clip_norm=0.5)
    return path


def test_statements_of_several_runs(tmp_path, capsys):
    runs = [run_with_ledger(tmp_path / name, name * 2) for name in ("a", "b")]
    privacy.run(privacy.Options(run_dirs=tuple(runs)))
    text = capsys.readouterr().out
    assert text.count("adjacency") == 2
    assert all(str(run) in text for run in runs)


def test_two_runs_with_one_noise_key_are_refused(tmp_path, capsys):
    runs = tuple(run_with_ledger(tmp_path / name, "ab") for name in ("a", "b"))
    with pytest.raises(RunDirectoryError, match="share a noise key"):
        privacy.run(privacy.Options(run_dirs=runs))
    assert capsys.readouterr().out == ""


def test_a_plan_compares_mechanisms_and_schedules(capsys):
    options = privacy.Options(target_epsilon=4.0, population=500, set=SCHEDULE)
    privacy.run(options)
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines() if line.split()[:1] in (["tree"], ["blt"])]
    assert all(float(row[6]) <= 4.0 for row in rows)
    assert {"gaussian", "tree", "blt"} <= {line.split(" ")[0] for line in text.split("\n")}
    for varied in ("rounds", "cohort", "separation"):
        assert f"other {varied}:" in text


def test_plan_uses_the_servers_momentum():
    """A BLT is optimised for the momentum; planned without it, a run would cost more."""
    tables = []
    for server in ("fedavg", "fedavgm"):
        settings = (*SCHEDULE, f"server.type={server}")
        options = privacy.Options(target_epsilon=4.0, population=500, set=settings)
        rows = [line.split() for line in privacy.plan(options, 4.0).splitlines()]
        tables.append(
            {row[0]: float(row[4]) for row in rows[:12] if len(row) == 8 and row[1] == "40"}
        )
    plain, momentum = tables
    assert momentum["blt"] > 1.1 * plain["blt"]
    assert momentum["tree"] == plain["tree"]


PRIVATE = ("aggregation.client_weighting=uniform", "aggregation.privacy.type=tree")


def test_a_plan_names_its_assumptions():
    settings = (*SCHEDULE, *PRIVATE, "train.over_selection=1.3", "aggregation.privacy.delta=1e-3")
    settings += (f"aggregation.privacy.fixed_nonce={'0' * 32}",)
    settings += ("aggregation.privacy.noise_cohort_size=100",)
    text = privacy.plan(privacy.Options(target_epsilon=4.0, population=500, set=settings), 4.0)
    for words in (
        "Each round selects 13 clients (`train.over_selection`) and divides by 10.",
        "PROJECTION: epsilon and error hold for a federation with 100 clients per round from a "
        "population of 5000.",
        "SIMULATION: `aggregation.privacy.fixed_nonce` is set",
        "no amplification by sampling",
        "Delta 0.001 is not below 1 / population",
        "Not included: the vocabulary.",
    ):
        assert words in text, words


def test_a_plan_for_devices_needs_no_population():
    options = privacy.Options(target_epsilon=4.0, devices=True, set=(*SCHEDULE, *PRIVATE))
    text = privacy.plan(options, 4.0)
    assert "Devices check in by themselves: no amplification by sampling." in text
    assert "the number of devices is unknown" in text


def test_secure_sums_do_not_change_the_planned_noise():
    texts = []
    for is_masked in ("false", "true"):
        settings = (*SCHEDULE, *PRIVATE, f"devices.secure_sums={is_masked}")
        options = privacy.Options(target_epsilon=4.0, devices=True, set=settings)
        texts.append(privacy.plan(options, 4.0))
    assert "The server sees: the update of each device, before it adds the noise." in texts[0]
    assert "no single update (secure sums)." in texts[1]
    assert "adds 0 to the sensitivity" in texts[1]
    tables = [text.split("\n* ")[0] for text in texts]
    assert tables[0] == tables[1]


def test_a_target_that_nothing_reaches_is_bad_usage():
    settings = (*SCHEDULE, *PRIVATE, "aggregation.privacy.delta=1e-10")
    options = privacy.Options(target_epsilon=1e-9, population=500, set=settings)
    with pytest.raises(UsageError, match="--target-epsilon=1e-09 cannot be reached"):
        privacy.plan(options, 1e-9)


def test_a_population_that_the_selection_exhausts_is_bad_usage():
    settings = (*SCHEDULE, "train.over_selection=2.0")
    options = privacy.Options(target_epsilon=4.0, population=100, set=settings)
    with pytest.raises(UsageError, match=r"must be >= 160, got 100: each round takes 20 clients"):
        privacy.plan(options, 4.0)


def test_a_statement_with_the_rounds_of_a_resumed_run(tmp_path, capsys):
    run = run_with_ledger(tmp_path / "a", "ab")
    privacy.run(privacy.Options(run_dirs=(run,), rounds=9))
    assert "Resumed with `train.rounds` = 9: epsilon " in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, words",
    [
        ({}, "Pass a run directory, or --target-epsilon"),
        ({"target_epsilon": 1.0}, "Pass --population"),
        ({"target_epsilon": 0.0, "population": 9}, "--target-epsilon must be > 0, got 0.0"),
        ({"target_epsilon": 1.0, "population": 9, "run_dirs": ("a",)}, "not both"),
        ({"run_dirs": ("a",), "population": 9}, "require --target-epsilon"),
        ({"run_dirs": ("a",), "devices": True}, "require --target-epsilon"),
        ({"target_epsilon": 1.0, "population": 9, "devices": True}, "not both"),
        (
            {"target_epsilon": 1.0, "population": 9, "rounds": 9},
            "--rounds requires run directories",
        ),
    ],
)
def test_conflicting_options_are_rejected(options, words):
    with pytest.raises(UsageError, match=words):
        privacy.Options(**options)


def test_a_plan_names_rehearsal_and_another_population_than_the_store_has(store):
    settings = (*SCHEDULE, f"data.store={store}")
    clients = len(ClientStore(store).client_ids("train"))
    lines = [
        privacy.plan(privacy.Options(target_epsilon=4.0, population=500, set=sets), 4.0)
        for sets in (settings, (*settings, "fine_tuning.general_store=general"))
    ]
    assert all(f"The store has {clients} train clients" in text for text in lines)
    assert ["clients of the general corpus" in text for text in lines] == [False, True]
