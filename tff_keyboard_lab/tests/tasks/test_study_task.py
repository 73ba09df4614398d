"""The study task: flags, and a whole small study that is interrupted, resumed and extended."""

import fcntl
import json
import shutil

import pytest

from tests.support import fakes
from tests.support.fakes import TINY
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import cli
from tff_keyboard.data.preparing.prepare import prepare as prepare_store
from tff_keyboard.storage import names
from tff_keyboard.storage.errors import ProgramError, UsageError
from tff_keyboard_lab.commands import study

STUDY = """
question = "Does a half do?"
control = "control"
populations = ["validation", "held_out"]
set = ["evaluation.every=1", "train.rounds=2"]

[[arms]]
name = "control"
config = "base.toml"

[[arms]]
name = "top"
label = "half of the clients"
config = "base.toml"
set = ["aggregation.rule.type=fedmed", "aggregation.rule.top_fraction=0.5"]

[[arms]]
name = "private"
config = "base.toml"
set = [
    "aggregation.client_weighting=uniform",
    "aggregation.privacy.type=gaussian",
    "aggregation.privacy.noise_multiplier=1.0",
]
"""


@pytest.fixture
def small(tmp_path):
    store = tmp_path / "store"
    config = config_lib.load("configs/demo.toml", [*TINY, f"data.store={store}"])
    prepare_store(config.data, store)
    (tmp_path / "base.toml").write_text(config_lib.dump(config))
    (tmp_path / "half.toml").write_text(STUDY)
    return tmp_path


def options(folder, **more):
    return study.Options(study=folder / "half.toml", workdir=folder / "runs", **more)


def test_plan_trains_nothing(small, capsys):
    study.run(options(small, plan=True))
    text = capsys.readouterr().out
    assert "Does a half do?" in text
    assert "3 runs, 0 finished; about" in text
    assert not (small / "runs").exists()


def test_a_name_is_that_of_a_study_in_the_folder(small, capsys, monkeypatch):
    folder = small / "configs" / "studies"
    folder.mkdir(parents=True)
    (small / "base.toml").rename(folder / "base.toml")
    (folder / "mine.toml").write_text(STUDY)
    monkeypatch.chdir(small)
    study.run(study.Options.parse("study", ["mine", "--workdir=runs", "--plan"]))
    assert "3 runs, 0 finished; about" in capsys.readouterr().out
    assert cli.launch(study, ["mien", "--workdir=runs", "--plan"]) == cli.USAGE
    error = capsys.readouterr().err
    assert error.startswith("error: No study is named 'mien'. Did you mean mine? Studies: ")
    assert error.count("\n") == 1


def test_the_plan_compares_the_budget(small, capsys):
    (small / "half.toml").write_text(STUDY + "[budget]\nhours = 0.5\ntokens_m = 0.0001\n")
    study.run(options(small, plan=True))
    text = capsys.readouterr().out
    assert "Budget: 0.00 of 0.50 hours used, 0.00 to go: enough; 0.00 of 0.00 M tokens" in text


def test_two_flags_choose_two_arms(small, capsys):
    words = [str(small / "half.toml"), f"--workdir={small / 'runs'}", "--plan"]
    study.run(study.Options.parse("study", [*words, "--arm=top"]))
    assert "2 runs, 0 finished; about" in capsys.readouterr().out
    study.run(study.Options.parse("study", [*words, "--arm=top", "--arm=private"]))
    assert "3 runs, 0 finished; about" in capsys.readouterr().out


def test_wrong_flags_end_before_any_run(small):
    with pytest.raises(UsageError, match="none of 7"):
        study.run(options(small, seeds=(7,)))
    with pytest.raises(UsageError, match=r"--tables: .* has no finished run"):
        study.run(options(small, tables=True))
    with pytest.raises(config_lib.ConfigError, match=r"train\.rouns"):
        study.run(options(small, set=("train.rouns=3",)))
    assert not (small / "runs").exists()


def test_a_folder_where_another_study_trains_is_left_alone(small):
    (small / "runs").mkdir()
    with (small / "runs" / names.LOCK).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another study trains there"):
            study.run(options(small))
        with pytest.raises(UsageError, match=r"--tables: .* has no finished run"):
            study.run(options(small, tables=True))  # only looks
    assert [path.name for path in (small / "runs").iterdir()] == [names.LOCK]


@pytest.mark.slow
def test_trains_tabulates_and_goes_on(small, capsys):
    study.run(options(small, jobs=2))
    report = json.loads((small / "runs" / "study.json").read_text())
    rows = {row["arm"]: row for row in report["rows"]}
    assert list(rows) == ["control", "top", "private"]
    sent = {name: row["facts"]["1"]["upload_bytes_per_round"] for name, row in rows.items()}
    assert sent["top"] == pytest.approx(sent["control"] * 2 / 3)  # ceil(0.5 * 3) of 3 clients
    assert rows["private"]["facts"]["1"]["privacy"]["epsilon"] > 0
    assert "privacy" not in rows["control"]["facts"]["1"]
    assert rows["top"]["verdicts"]["held_out"]["perplexity"] == "one seed"
    assert "half of the clients" in (small / "runs" / "study.md").read_text()
    assert (small / "runs" / "curves.png").stat().st_size > 5_000

    # All finished: nothing is trained or evaluated again.
    times = {path: path.stat().st_mtime for path in (small / "runs").glob("*/*.json*")}
    study.run(options(small))
    assert times == {path: path.stat().st_mtime for path in (small / "runs").glob("*/*.json*")}
    assert json.loads((small / "runs" / "study.json").read_text())["rows"] == report["rows"]

    # Another config in the same folder is not taken for finished, and train refuses it.
    with pytest.raises(ProgramError, match=r"3 of 3 runs are missing"):
        study.run(options(small, set=("client.learning_rate=0.1",)))
    assert "failed with status 4" in capsys.readouterr().err

    # A model that has diverged stops nothing; it has no row.
    fakes.blow_up(small / "runs" / "top_seed1")
    with pytest.raises(ProgramError, match=r"1 of 3 runs diverged: top_seed1"):
        study.run(options(small))
    left = json.loads((small / "runs" / "study.json").read_text())["rows"]
    assert [row["arm"] for row in left] == ["control", "private"]

    # Tables of what is there, without training what is not.
    shutil.rmtree(small / "runs" / "top_seed1")
    study.run(options(small, tables=True))
    left = json.loads((small / "runs" / "study.json").read_text())["rows"]
    assert [row["arm"] for row in left] == ["control", "private"]
    assert not (small / "runs" / "top_seed1").exists()


@pytest.mark.slow
def test_a_budget_leaves_runs_out(small, capsys):
    (small / "half.toml").write_text(STUDY + "[budget]\ntokens_m = 0.0001\n")
    words = [str(small / "half.toml"), f"--workdir={small / 'runs'}"]
    assert cli.launch(study, words) == cli.MACHINE
    assert "2 of 3 runs are left out: top_seed1, private_seed1. The" in capsys.readouterr().err
    (row,) = json.loads((small / "runs" / "study.json").read_text())["rows"]
    facts = row["facts"]["1"]
    noted = json.loads((small / "runs" / "control_seed1" / "environment.json").read_text())
    assert facts["tokens"] > 100
    assert (facts["commit"], facts["machine"]) == (
        noted["commit"],
        f"{noted['machine']}, {noted['cores']} CPUs",
    )
    assert "--set=train.seed=1" in row["commands"]["1"]
    assert "train.seed=1" not in row["set"]


TUNED = """
question = "Which is better after equal tuning?"
control = "fedavg"
populations = ["held_out"]
set = ["evaluation.every=1", "train.rounds=2", "train.final_model=last"]
worst_tenth = "recall_at_3_no_eos"
reach_share = 0.95

[tuning]
trials = 2
seed = 101
metric = "perplexity"

[[arms]]
name = "fedavg"
config = "base.toml"
trials = [["client.learning_rate=0.001"], ["client.learning_rate=1.0"]]
"""


@pytest.mark.slow
def test_a_tuned_study_trains_with_the_best_trials(small, capsys):
    (small / "half.toml").write_text(TUNED)
    study.run(options(small, plan=True))
    assert "3 runs, 0 finished; about" in capsys.readouterr().out
    with pytest.raises(ProgramError, match="2 of 2 trials are missing"):
        study.run(options(small, tables=True))
    study.run(options(small, jobs=2))
    runs = small / "runs"
    tuning = json.loads((runs / "tuning.json").read_text())
    assert {name: arm["chosen"] for name, arm in tuning["arms"].items()} == {"fedavg": 2}
    config = config_lib.load(runs / "fedavg_seed1" / "config.toml")
    assert (config.client.learning_rate, config.train.seed) == (1.0, 1)
    # The last validation of the chosen trial is in the file, and the better of the two.
    last = json.loads(
        (runs / "trials/fedavg_trial2_seed101/metrics.jsonl").read_text().split("\n")[1]
    )
    values = [trial["value"] for trial in tuning["arms"]["fedavg"]["trials"]]
    assert values[1] == last["evaluation/perplexity"] == min(values)
    # Trials do not read the held-out clients.
    assert not list((runs / "trials").glob("*/evaluation_*"))

    (control,) = json.loads((runs / "study.json").read_text())["rows"]
    assert control["set"][-1] == "client.learning_rate=1.0"
    for facts in control["facts"].values():
        assert facts["cpu_seconds_per_round"] > 0
        assert facts["reached"]["rounds"] in (1, 2)
        assert facts["reached"]["total_bytes"] <= facts["total_bytes"]
    assert 0 <= control["worst_tenth"]["recall_at_3_no_eos"]["held_out"] <= 1
    page = (runs / "study.md").read_text()
    for title in ("worst tenth of clients", "rounds to 95% of the top-3 recall of fedavg", "CPU s"):
        assert title in page

    # A second call takes the same trials and trains nothing.
    times = {path: path.stat().st_mtime for path in runs.glob("*/*.json*")}
    study.run(options(small))
    assert times == {path: path.stat().st_mtime for path in runs.glob("*/*.json*")}
