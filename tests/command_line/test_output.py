"""A closed pipe at the output stops no task; a full disk does."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]

# A task that prints more than a pipe holds, then leaves a file: as `train` leaves its model.
TASK = """
import dataclasses, pathlib, sys, types
from tff_keyboard.command_line import cli
from tff_keyboard.command_line.options import TaskOptions

@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    pass

def run(options):
    for line in range(100_000):
        print("round", line, flush=line % 1000 == 0)
        print("progress", line, file=sys.stderr)
    pathlib.Path(sys.argv[1]).write_text("model")

task = types.SimpleNamespace(__name__="tasks.fake", __doc__="A task.", Options=Options, run=run)
sys.exit(cli.launch(task, []))
"""


def launch(tmp_path, shell):
    program = tmp_path / "task.py"
    program.write_text(TASK)
    command = f"set -o pipefail; {sys.executable} {program} {tmp_path / 'model'} {shell}"
    return subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.parametrize("shell", ["2>/dev/null | head -1", "2>&1 >/dev/null | head -1"])
def test_task_continues_if_its_reader_closes_the_pipe(tmp_path, shell):
    done = launch(tmp_path, shell)
    assert done.returncode == 0
    assert done.stdout in ("round 0\n", "progress 0\n")
    assert (tmp_path / "model").read_text() == "model"
    assert done.stderr == ""


def test_full_disk_is_an_error(tmp_path):
    done = launch(tmp_path, "2>/dev/null >/dev/full")
    assert done.returncode == 4
    assert not (tmp_path / "model").exists()
