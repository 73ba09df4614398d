"""Start-up messages of TensorFlow are hidden in a normal run, and no other output."""

import os
import pathlib
import subprocess
import sys

import pytest

from tff_keyboard.host import quiet

ROOT = pathlib.Path(__file__).parents[2]


def run_python(code, **variables):
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | variables,
        timeout=600,
    )


@pytest.mark.slow
def test_the_import_of_tff_is_silent():
    program = run_python(
        "from tff_keyboard.host import quiet\n"
        "tff = quiet.import_tensorflow_federated()\n"
        "print(tff.__version__)"
    )
    assert program.stdout == "0.87.0\n"
    lines = program.stderr.splitlines()
    assert [line.split(" s  ")[1] for line in lines] == [
        "importing TensorFlow",
        "importing TensorFlow Federated",
    ]


@pytest.mark.slow
def test_tff_jax_works_after_the_import():
    program = run_python(
        "import numpy as np\n"
        "from tff_keyboard.host import quiet\n"
        "tff = quiet.import_tensorflow_federated()\n"
        "import jax, sklearn.preprocessing\n"
        "print(tff.jax.computation(np.int32)(lambda x: x + 1).type_signature)\n"
        "tff.no_such_name"
    )
    assert program.stdout == "(int32 -> int32)\n"
    assert program.stderr.endswith("has no attribute 'no_such_name'\n")


def fake_module(tmp_path, body):
    (tmp_path / "noisy.py").write_text(body)
    return (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom tff_keyboard.host import quiet\n"
    )


CHATTER = "2026-01-01 00:00:00.123456: E tensorflow/cuda_dnn.cc:1] Unable to register cuDNN"
NOISE = f"import os\nos.write(2, b'{CHATTER}\\n')\nos.write(2, b'disk is failing\\n')\n"


def test_other_lines_are_printed(tmp_path):
    program = run_python(fake_module(tmp_path, NOISE) + "quiet._import('noisy')")
    assert program.returncode == 0
    assert program.stderr.splitlines()[1:] == ["disk is failing"]


def test_warnings_are_one_line(tmp_path):
    code = "quiet._import('noisy')\nimport warnings\nwarnings.warn('checkpoint is\\ndamaged')"
    program = run_python(fake_module(tmp_path, "") + code)
    assert program.stderr.splitlines()[1:] == ["warning: checkpoint is damaged"]


def test_a_failed_import_shows_everything(tmp_path):
    body = NOISE + "raise ImportError('libfoo is missing')"
    program = run_python(fake_module(tmp_path, body) + "quiet._import('noisy')")
    assert program.returncode == 1
    assert CHATTER in program.stderr
    assert "ImportError: libfoo is missing" in program.stderr


def test_an_interrupted_import_shows_no_chatter(tmp_path):
    code = "try:\n    quiet._import('noisy')\nexcept KeyboardInterrupt:\n    print('ended')"
    program = run_python(fake_module(tmp_path, NOISE + "raise KeyboardInterrupt") + code)
    assert program.stdout == "ended\n"
    assert program.stderr.splitlines()[1:] == ["disk is failing"]


def test_verbose_changes_nothing(tmp_path):
    code = fake_module(tmp_path, NOISE) + "quiet._import('noisy')"
    program = run_python(code, **{quiet.VERBOSE_VARIABLE: "1"})
    assert program.stderr == CHATTER + "\ndisk is failing\n"


@pytest.mark.parametrize("value, expected", [("", False), ("0", False), ("1", True)])
def test_is_verbose(monkeypatch, value, expected):
    monkeypatch.setenv(quiet.VERBOSE_VARIABLE, value)
    assert quiet.is_verbose() is expected


def test_importing_this_module_does_nothing():
    program = run_python(
        "import os, sys, warnings\n"
        "def settings(): return dict(os.environ), list(warnings.filters), warnings.formatwarning\n"
        "before = settings()\n"
        "import tff_keyboard.host.quiet\n"
        "assert before == settings()\n"
        "assert 'tensorflow' not in sys.modules"
    )
    assert program.returncode == 0, program.stderr
