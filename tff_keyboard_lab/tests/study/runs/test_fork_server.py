"""Commands in forked processes: as in processes of their own, and ended with the study."""

import contextlib
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.support.fakes import tiny_config
from tff_keyboard import config as config_lib
from tff_keyboard.command_line import commands
from tff_keyboard.storage.errors import ProgramError
from tff_keyboard_lab.study.runs.fork_server import ForkServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with contextlib.closing(ForkServer()) as server:
        yield server


def test_a_training_has_the_bytes_of_one_in_a_process_of_its_own(server, store, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(config_lib.dump(tiny_config(store, "train.rounds=2")))
    words = ["train", f"--config={config}", "--workdir="]
    logs = [tmp_path / f"{i}.log" for i in range(2)]
    commands_of_both = [
        server.start([*words[:-1], f"--workdir={tmp_path / str(i)}"], log)
        for i, log in enumerate(logs)
    ]
    assert [command.wait() for command in commands_of_both] == [0, 0], logs[0].read_text()
    alone = [*commands.program(), *words[:-1], f"--workdir={tmp_path / 'alone'}"]
    subprocess.run(alone, check=True, capture_output=True)
    weights = [(tmp_path / run / "model/weights.npz").read_bytes() for run in ("0", "1", "alone")]
    assert weights[0] == weights[1] == weights[2]
    assert "importing TensorFlow" not in logs[0].read_text()  # it was there


def test_output_and_exit_code_of_a_command(server, tmp_path):
    log = tmp_path / "log"
    log.write_text("before\n")
    command = server.start(["train", "--config=nosuch.toml", "--workdir=run"], log)
    assert command.wait() == command.poll() == 2
    assert log.read_text().startswith("before\nerror: No config file at nosuch.toml")
    command = server.start(["--version"], log)
    assert command.wait() == 0
    assert "tff-keyboard 0." in log.read_text()


def test_a_command_that_is_terminated_saves_its_rounds(server, store, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(config_lib.dump(tiny_config(store, "train.rounds=100000")))
    command = server.start(
        ["train", f"--config={config}", f"--workdir={tmp_path / 'run'}"], tmp_path / "log"
    )
    rows = tmp_path / "run/metrics.jsonl"
    wait_for(lambda: rows.exists() and rows.read_text().count("\n") > 1)
    assert command.poll() is None
    command.terminate()
    assert command.wait() == 143
    assert list((tmp_path / "run/checkpoints").iterdir())
    command.terminate()  # nothing is left


def test_a_study_that_is_killed_leaves_no_process(store, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(config_lib.dump(tiny_config(store, "train.rounds=100000")))
    words = ["train", f"--config={config}", f"--workdir={tmp_path / 'run'}"]
    study = f"""
import pathlib, time
from tff_keyboard_lab.study.runs.fork_server import ForkServer
command = ForkServer().start({words!r}, pathlib.Path({str(tmp_path / "log")!r}))
print(command.pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", study], stdout=subprocess.PIPE, text=True
    ) as process:
        training = pathlib.Path("/proc") / process.stdout.readline().strip()
        assert training.exists()
        process.kill()
    wait_for(lambda: not training.exists())


def test_a_server_that_is_gone_is_one_line(tmp_path):
    with contextlib.closing(ForkServer()) as server:
        command = server.start(["--version"], tmp_path / "log")
        assert command.wait() == 0
        server._process.send_signal(signal.SIGKILL)
        server._process.wait()
        with pytest.raises(ProgramError, match=r"has ended\. Run the command again"):
            server.start(["--version"], tmp_path / "log").wait()


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
