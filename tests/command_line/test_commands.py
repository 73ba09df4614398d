"""Packages register commands: another package's command runs, and names are unique."""

import subprocess
import sys

import pytest

from tests.support.console import ROOT
from tests.support.fake_distribution import install
from tff_keyboard.command_line import commands

LIST = """
from tff_keyboard.command_line.commands import Command
COMMANDS = (Command({group!r}, {name!r}, "other_count_words", "count the words of a text"),)
"""
TASK = '''
"""Counts the words of a text."""
import dataclasses
from typing import Annotated
from tff_keyboard.command_line.options import Positional, TaskOptions

@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TaskOptions):
    text: Annotated[str, Positional("a text")]

def run(options):
    print(len(options.text.split()))
'''


@pytest.fixture
def run(tmp_path):
    """Returns a function that runs the console next to a package with one command."""

    def run_with(*arguments, name="other-count-words", group="Data"):
        install(tmp_path, "other", {commands.GROUP: {"other": "other_commands:COMMANDS"}})
        (tmp_path / "other_commands.py").write_text(LIST.format(name=name, group=group))
        (tmp_path / "other_count_words.py").write_text(TASK)
        return subprocess.run(
            [sys.executable, "-m", "tasks", *arguments],
            cwd=ROOT,
            env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_with


def test_a_command_of_another_package_runs(run):
    ran = run("other-count-words", "see you today")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "3\n", "")


@pytest.mark.parametrize("group, following", [("Data", "Train"), ("Other", "Exit codes")])
def test_a_command_of_another_package_is_listed_in_its_group(run, group, following):
    ran = run("--help", group=group)
    below = ran.stdout.partition(f"\n{group}\n")[2].partition(f"\n\n{following}\n")[0]
    name, description = below.splitlines()[-1].split(maxsplit=1)
    assert (ran.returncode, name, description) == (
        0,
        "other-count-words",
        "count the words of a text",
    )


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]])
def test_two_commands_of_one_name_are_an_error(run, arguments):
    ran = run(*arguments, name="train")
    assert ran.returncode == 4
    assert ran.stderr.startswith(
        "error: Two packages have a command 'train': tasks.train.train and"
    )
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("package", ["tff_keyboard_app", "tff_keyboard_fleet", "tff_keyboard_lab"])
def test_the_list_of_a_satellite_imports_nothing_heavy(package):
    if not (ROOT / package).is_dir():
        pytest.skip(f"{package} is not installed")
    script = (
        "import sys, tff_keyboard; before = set(sys.modules);"
        f"import {package}.commands;"
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(ran.stdout.split()) <= {"tff_keyboard", package, *sys.stdlib_module_names}
