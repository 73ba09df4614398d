"""Trainings as processes: order, failure, interruption. A script replaces the train task."""

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tff_keyboard import config as config_lib
from tff_keyboard.host.interruption import SignalReceived
from tff_keyboard.storage import names
from tff_keyboard_lab.study.plan.plan import Run
from tff_keyboard_lab.study.runs import runner

# What `train` leaves, as far as a study looks at it.
TRAINER = """
import json, pathlib, sys, time
words = dict(w.lstrip('-').split('=', 1) for w in sys.argv[2:] if '=' in w)
path = pathlib.Path(words['workdir'])
if path.name.startswith('slow'):
    time.sleep(600)
if path.name.startswith('bad'):
    sys.exit(3)
(path / 'model').mkdir(parents=True)
(path / 'config.toml').write_text(pathlib.Path(words['config']).read_text())
(path / 'metrics.jsonl').write_text(json.dumps({'round': 1}) + '\\n')
(path / 'model' / 'weights.npz').write_text('')
(path / 'model' / 'model.json').write_text(json.dumps({
    'format': 'tff-keyboard model 1', 'name': 'cifg', 'vocabulary_size': 9, 'options': {},
    'sha256': {'weights.npz': '', 'vocabulary.txt': ''}, 'rounds': 1}))
with (path.parent / 'order').open('a') as file:
    file.write(path.name + '\\n')
"""


@pytest.fixture
def start(tmp_path):
    script = tmp_path / "trainer.py"
    script.write_text(TRAINER)
    return starter([sys.executable, str(script)])


def starter(command):
    """Returns a function that starts a command in a process of its own, as `runner.Start`."""

    def start(words, log):
        return subprocess.Popen([*command, *words], stdout=log.open("ab"), stderr=subprocess.STDOUT)

    return start


def run_of(tmp_path, name, after=None):
    config = config_lib.loads("[train]\nrounds = 1")
    file = tmp_path / "resolved.toml"
    file.write_text(config_lib.dump(config))
    return Run(
        arm=name,
        point="",
        seed=1,
        path=tmp_path / "runs" / name,
        task="train",
        config_file=file,
        overrides=(),
        config=config,
        after=tmp_path / "runs" / after if after else None,
    )


def order(tmp_path):
    return (tmp_path / "runs" / "order").read_text().split()


@pytest.mark.parametrize("jobs", [1, 3])
def test_trains_each_run_once_after_the_run_it_waits_for(tmp_path, start, jobs):
    runs = [run_of(tmp_path, "a"), run_of(tmp_path, "b", after="a"), run_of(tmp_path, "c")]
    seen = []
    for _ in range(2):
        missing = runner.train_all(
            runs, jobs=jobs, ended=lambda run: seen.append(run.arm), start=start
        )
        assert missing == ([], [])
    done = order(tmp_path)
    assert sorted(done) == ["a", "b", "c"]  # the second time nothing was trained
    assert done.index("a") < done.index("b")
    assert sorted(seen) == ["a", "a", "b", "b", "c", "c"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "jobs, settings, expected",
    [
        (1, ["engine=ray"], ""),
        (2, [], ""),
        (2, ["engine=ray"], "1"),
        (2, ["engine=ray", "cluster.max_nodes=3"], ""),
    ],
)
def test_several_trainings_share_a_cluster(tmp_path, jobs, settings, expected):
    config = config_lib.loads("", [f"execution.{setting}" for setting in settings])
    run = dataclasses.replace(run_of(tmp_path, "a"), config=config)
    pool = runner._Pool(jobs, starter(["echo"]))
    pool.start(run)
    pool.working[0][1].wait()
    words = runner.log_of(run).read_text()
    added = "--set=execution.cluster.max_nodes="
    assert words.partition(added)[2].strip() == expected


@pytest.mark.slow
def test_resuming_with_a_longer_cosine_is_rejected(tmp_path):
    config = config_lib.loads("", ["server.schedule={type='cosine',rounds=4}"])
    pool = runner._Pool(1, starter(["echo"]))
    pool.start(dataclasses.replace(run_of(tmp_path, "a"), config=config))
    pool.working[0][1].wait()
    assert "--set=server.schedule.rounds=4" in runner.log_of(run_of(tmp_path, "a")).read_text()


def test_failure_only_stops_runs_that_wait_for_it(tmp_path, start, capsys):
    runs = [run_of(tmp_path, "bad"), run_of(tmp_path, "b", after="bad"), run_of(tmp_path, "c")]
    missing = runner.train_all(runs, start=start)
    assert [run.arm for run in missing.failed] == ["bad", "b"]
    assert not missing.left_out
    assert order(tmp_path) == ["c"]
    assert "bad failed with status 3; see" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_once_no_run_may_begin_those_that_train_end(tmp_path, start, jobs):
    earlier = run_of(tmp_path, "earlier")
    runner.train_all([earlier], start=start)
    runs = [*(run_of(tmp_path, name) for name in "abc"), run_of(tmp_path, "waits", "c"), earlier]
    answers, seen = iter([True, True, False]), []
    missing = runner.train_all(
        runs,
        jobs=jobs,
        ended=lambda run: seen.append(run.arm),
        may_begin=lambda: next(answers),  # a fourth question would raise
        start=start,
    )
    assert sorted(seen) == ["a", "b", "earlier"]  # also the one that was finished before
    assert not missing.failed
    assert [run.arm for run in missing.left_out] == ["c", "waits"]
    assert sorted(order(tmp_path)) == ["a", "b", "earlier"]


@pytest.mark.slow
def test_another_config_in_the_directory_is_not_finished(tmp_path, start):
    run = run_of(tmp_path, "a")
    runner.train_all([run], start=start)
    assert runner.is_finished(run)
    (run.path / names.CONFIG).write_text(config_lib.dump(config_lib.loads("[train]\nrounds = 2")))
    assert not runner.is_finished(run)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows, saved, finished",
    [
        (4, {"rounds": 1}, False),  # a longer run, interrupted: the model is of fewer rounds
        (4, {"rounds": 4}, False),  # of a config with four rounds
        (5, {"rounds": 5}, True),
        (5, {"rounds": 4, "stopped_early": True}, False),
        (4, {"rounds": 4, "stopped_early": True}, True),
        (4, {"stopped_early": True}, False),
        (0, {"rounds": 0, "stopped_early": True}, False),
    ],
)
def test_a_model_is_not_the_end_of_training(tmp_path, start, rows, saved, finished):
    run = run_of(tmp_path, "a")
    runner.train_all([run], start=start)
    config = config_lib.loads("[train]\nrounds = 5\nearly_stop_patience = 2")
    (run.path / names.CONFIG).write_text(config_lib.dump(config))
    (run.path / names.METRICS).write_text(
        "".join(json.dumps({"round": number}) + "\n" for number in range(1, rows + 1))
    )
    description = run.path / names.MODEL / names.MODEL_DESCRIPTION
    content = json.loads(description.read_text())
    del content["rounds"]
    description.write_text(json.dumps(content | saved))
    assert runner.is_finished(dataclasses.replace(run, config=config)) is finished


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_the_trainings(tmp_path, start, monkeypatch, number):
    def start_and_interrupt(pool, run):
        start_run(pool, run)
        assert children() - before
        signal.raise_signal(number)

    start_run = runner._Pool.start
    monkeypatch.setattr(runner._Pool, "start", start_and_interrupt)
    run = run_of(tmp_path, "slow")
    before = children()
    with pytest.raises(SignalReceived, match=f"{number.name} with 0 of 1 runs") as raised:
        runner.train_all([run], start=start)
    assert raised.value.exit_code == 128 + number
    assert children() <= before


def children():
    text = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()
    return set(text.split())
