"""Child processes do not import modules from the current folder."""

import importlib.util
import signal
import subprocess
import sys

import pytest

import tff_keyboard
from tests.support.hostile_folder import enter_hostile_folder
from tff_keyboard.command_line import commands
from tff_keyboard.host import children


@pytest.mark.skipif(
    importlib.util.find_spec("tff_keyboard_tasks") is None, reason="the program is not installed"
)
@pytest.mark.parametrize(
    "command",
    [
        commands.program(),
        children.with_parent_death_signal(commands.program(), signal.SIGTERM),
        children.python_module("tff_keyboard_tasks", version=(3, 11)),
        children.python_module("tff_keyboard_tasks", version=(3, 10)),
    ],
    ids=["program", "launcher", "flag", "python 3.10"],
)
def test_no_child_imports_a_module_of_the_current_folder(command, tmp_path, monkeypatch):
    enter_hostile_folder(tmp_path / "downloads", monkeypatch)
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert tff_keyboard.__version__ in done.stdout


@pytest.mark.parametrize("version", [(3, 10), (3, 11)])
def test_a_module_gets_its_arguments_and_pythonpath(version, tmp_path, monkeypatch):
    """A child finds an own part in a module of PYTHONPATH, as its parent does."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_part.py").write_text("import sys; print(sys.argv[1:], __name__)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    command = children.python_module("my_part", "--flag=a b", "c", version=version)
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "['--flag=a b', 'c'] __main__\n"
    assert command[0] == sys.executable
