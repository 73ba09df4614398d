"""The console command: fast help, one-line errors, exit codes."""

import dataclasses
import subprocess
import sys
import types
from typing import Annotated

import pytest

from tasks import __main__ as console
from tests.support.console import answers
from tff_keyboard.command_line import cli, options
from tff_keyboard.host import output
from tff_keyboard.storage.errors import DataError

HELP = [["--help"], *([name, "--help"] for name in console.commands())]


@pytest.fixture(scope="module")
def helps():
    return dict(zip(map(tuple, HELP), answers(HELP), strict=True))


@pytest.mark.parametrize("arguments", HELP)
def test_help_imports_no_tensorflow(helps, arguments):
    result = helps[tuple(arguments)]
    assert result.code == 0
    assert "tff-keyboard" in result.stdout
    assert "tensorflow" not in result.modules
    assert "tff_keyboard.command_line.cli" in result.modules


def run(*arguments):
    command = [sys.executable, "-m", "tasks", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_in_a_separate_process(helps):
    result = run("train", "--help")
    assert (result.returncode, result.stdout) == (0, helps["train", "--help"].stdout)


@pytest.mark.parametrize("name", console.commands())
def test_every_task_has_help_for_each_of_its_options(name, helps):
    task = console.module_of(name)
    text = helps[name, "--help"].stdout
    for field in dataclasses.fields(task.Options):
        assert f"--{field.name.replace('_', '-')}" in text or f"  {field.name.upper()}" in text


def test_unknown_task_names_the_nearest():
    result = run("trian")
    assert result.returncode == cli.USAGE
    assert "Did you mean 'train'?" in result.stderr


def test_unknown_flag_is_one_line():
    result = run("train", "--cofnig=x")
    assert result.returncode == cli.USAGE
    assert result.stderr.count("\n") == 1
    assert "cofnig" in result.stderr


@dataclasses.dataclass(frozen=True, kw_only=True)
class FakeOptions(options.TaskOptions):
    a_name: Annotated[str, "A flag."] = ""


class ResumingOptions(FakeOptions):
    resumes = True


def fake_task(error, options=FakeOptions):
    def run(options):
        raise error

    return types.SimpleNamespace(__name__="tasks.fake", __doc__="A fake.", run=run, Options=options)


@pytest.mark.parametrize(
    "error, code",
    [
        (DataError("bad\nline\x1b[2J\x9b"), cli.BAD_INPUT),
        (cli.UsageError("flags"), cli.USAGE),
        (OSError(28, "No space left on device", "runs/a"), cli.MACHINE),
        (KeyboardInterrupt(), cli.INTERRUPTED),
    ],
)
def test_errors_become_one_line_and_a_code(error, code, capsys):
    assert cli.launch(fake_task(error), []) == code
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said[:-1].isprintable()


# Ctrl-C falls into the import of this module; nothing else of the command differs.
INTERRUPTED_IMPORT = """
import os, signal, sys
module = sys.argv.pop(1)
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
from tasks import __main__ as console
sys.meta_path.insert(0, Interrupting())
console.main()
"""


@pytest.mark.parametrize(
    "module",
    ["tff_keyboard.command_line.cli", "tff_keyboard.config", "tasks.data.prepare", "numpy"],
)
def test_ctrl_c_during_imports_is_one_line(module, tmp_path):
    words = ["prepare", f"--out={tmp_path / 'store'}"]
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module, *words]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (cli.INTERRUPTED, "error: interrupted.\n")


# A thread that never ends stands for one that works in TensorFlow.
INTERRUPTED_BESIDE_A_THREAD = """
import atexit, sys, threading
from tasks import __main__ as console
def interrupted(words):
    threading.Thread(target=threading.Event().wait).start()
    atexit.register(sys.stderr.close)  # as absl does
    atexit.register(print, "worker stopped", end="")
    {}
console._main = interrupted
console.main()
"""


@pytest.mark.parametrize("end", ["raise KeyboardInterrupt", "sys.exit(130)", "sys.exit(143)"])
def test_interrupted_process_does_not_wait_for_threads(end):
    command = [sys.executable, "-c", INTERRUPTED_BESIDE_A_THREAD.format(end)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == (143 if "143" in end else cli.INTERRUPTED)
    assert ended.stdout == "worker stopped"


@pytest.mark.parametrize("options, goes_on", [(ResumingOptions, True), (FakeOptions, False)])
def test_resume_hint_only_for_tasks_that_resume(options, goes_on, capsys):
    assert cli.launch(fake_task(KeyboardInterrupt(), options), []) == cli.INTERRUPTED
    assert ("to resume" in capsys.readouterr().err) == goes_on


def test_trainings_resume():
    resuming = {name for name in console.commands() if console.module_of(name).Options.resumes}
    assert resuming - {"study", "attack", "audit-tail"} == {"train", "train-server"}


def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        cli.launch(fake_task(ZeroDivisionError()), [])


class ResourceExhaustedError(Exception):
    """An error with the name of TensorFlow's."""


@pytest.mark.parametrize("error", [MemoryError(), ResourceExhaustedError("OOM when allocating")])
def test_memory_that_runs_out_is_one_line(capsys, error):
    def run_out(unused_options):
        raise error

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options(options.TaskOptions):
        """None."""

        resumes = True

    task = types.SimpleNamespace(__name__="tasks.train.train", Options=Options, run=run_out)
    assert cli.launch(task, []) == cli.MACHINE
    (line,) = capsys.readouterr().err.splitlines()
    assert "out of memory" in line
    assert line.endswith("Run the same command again to resume.")


def test_warnings_become_one_line_without_control_characters():
    line = output.warning_line(UserWarning("two\nlines\x1b[2J \u202e"))
    assert line == "warning: two lines[2J\n"
