"""The console command: fast help, one-line errors, exit codes."""

import importlib
import subprocess
import sys
import types

import pytest
from absl import flags

from tasks import __main__ as console
from tasks import cli


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tasks", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in console.TASKS)])
def test_help_imports_no_tensorflow(arguments):
    result = run(*arguments)
    assert result.returncode == 0
    assert "tff-keyboard" in result.stdout
    assert " tensorflow\n" not in result.stderr  # -X importtime lists every import


def test_every_task_has_help_for_each_of_its_flags():
    for module_name, _ in console.TASKS.values():
        text = cli.help_text(importlib.import_module(module_name))
        assert "None (" not in text
        assert "Flags:" in text


def test_unknown_task_names_the_nearest():
    result = run("trian")
    assert result.returncode == cli.USAGE
    assert "Did you mean 'train'?" in result.stderr


def test_unknown_flag_is_one_line():
    result = run("train", "--cofnig=x")
    assert result.returncode == cli.USAGE
    errors = [line for line in result.stderr.splitlines() if not line.startswith("import time")]
    assert len(errors) == 1
    assert "cofnig" in errors[0]


def fake_task(error):
    def main(argv):
        del argv
        raise error

    flag_values = flags.FlagValues()
    return types.SimpleNamespace(
        __name__="tasks.fake", __doc__="A fake.", main=main, FLAGS=flag_values
    )


class DataError(ValueError):
    pass


@pytest.mark.parametrize(
    "error, code",
    [
        (DataError("bad\nline"), cli.BAD_INPUT),
        (cli.UsageError("flags"), cli.USAGE),
        (OSError(28, "No space left on device", "runs/a"), cli.MACHINE),
        (KeyboardInterrupt(), cli.INTERRUPTED),
    ],
)
def test_errors_become_one_line_and_a_code(error, code, capsys):
    assert cli.launch(fake_task(error), []) == code
    assert capsys.readouterr().err.count("\n") == 1


def test_a_bug_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        cli.launch(fake_task(ZeroDivisionError()), [])


def test_flags_may_be_spelled_with_hyphens(capsys):
    seen = []
    flag_values = flags.FlagValues()
    flags.DEFINE_bool("allow_loss", False, "A flag.", flag_values=flag_values)
    flags.DEFINE_string("a_name", "", "A flag.", flag_values=flag_values)

    def main(argv):
        seen.append((argv, flag_values.allow_loss, flag_values.a_name))

    task = types.SimpleNamespace(
        __name__="tasks.fake", __doc__="A fake.", main=main, FLAGS=flag_values
    )
    assert cli.launch(task, ["--allow-loss", "--a-name=x-y", "z-z"]) == cli.OK
    assert cli.launch(task, ["--noallow-loss", "--a-name", "x-y"]) == cli.OK
    assert seen == [(["z-z"], True, "x-y"), ([], False, "x-y")]
    assert cli.launch(task, ["--allow-los"]) == cli.USAGE
    assert "allow-los" in capsys.readouterr().err
