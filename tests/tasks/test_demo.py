"""The chain of `make demo`: real tasks with valid flags, which stops at the first failure."""

import types

import pytest

from tasks import __main__ as console
from tasks import demo
from tff_keyboard.command_line import cli


@pytest.mark.parametrize("step", demo.STEPS, ids=lambda step: step[1][0])
def test_tasks_parse_arguments_in_any_folder(step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, (task, *arguments) = step
    options = console.module_of(task).Options.parse(task, arguments)
    if task == "train":
        assert options.run_config().data.store == "data/demo"


@pytest.mark.parametrize("failing", [0, 2, None])
def test_failed_step_ends_the_demo(failing, monkeypatch, capsys):
    ran = []

    def launch(task: types.ModuleType, arguments):
        ran.append(task)
        return cli.BAD_INPUT if len(ran) - 1 == failing else cli.OK

    monkeypatch.setattr(cli, "launch", launch)
    assert demo.main() == (cli.OK if failing is None else cli.BAD_INPUT)
    expected = len(demo.STEPS) if failing is None else failing + 1
    assert len(ran) == expected
    assert capsys.readouterr().out.count("== ") == expected
