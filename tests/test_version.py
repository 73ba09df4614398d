"""One version: of the package, of what is installed, of the changelog and of what runs record."""

import pathlib
import re

import pytest
import tomllib

import tff_keyboard
from tasks import __main__ as console
from tff_keyboard.storage import environment

ROOT = pathlib.Path(__file__).parents[1]


def test_it_is_said_in_one_voice():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == tff_keyboard.__version__
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    assert [p["version"] for p in lock["package"] if p["name"] == "tff-keyboard"] == [
        tff_keyboard.__version__
    ]
    newest = re.search(
        r"^## \[([0-9]\S+)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M
    )
    assert newest is not None
    assert newest.group(1) == tff_keyboard.__version__


def test_a_run_records_it():
    assert environment.describe()["packages"]["tff-keyboard"] == tff_keyboard.__version__


def test_it_can_be_asked_for(capsys):
    with pytest.raises(SystemExit) as end:
        console._main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"tff-keyboard {tff_keyboard.__version__}\n"
