"""Without the extras of pyproject.toml: what types and judges exports works, the rest is one line.

`test_wheel.py` does the same with a wheel and another Python, slowly.
"""

import os
import subprocess
import sys

import pytest

from tasks import __main__ as console
from tests.support.console import ROOT, answers
from tests.support.fakes import ledger_header
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage import shipped_files
from tflite_export.runtime import interpreters

# What only the extras install.
EXTRAS = (
    "dp_accounting", "grpc", "jax", "jinja2", "keras", "matplotlib", "ray", "scipy",
    "tensorboard", "tensorflow", "tensorflow_federated", "tensorflow_privacy", "tensorflow_text",
)  # fmt: skip
IMPORT_ALL = """
import json, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None
from tasks import __main__ as console
for task in console.commands():
    console.module_of(task)
"""

needs_litert = pytest.mark.skipif(
    "litert" not in interpreters.installed_runtimes(), reason="ai-edge-litert is not installed"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Returns a folder with a text, logs, and a ledger."""
    folder = tmp_path_factory.mktemp("light")
    lines = [f"see you {day}\nwhat are you doing {day}\n" for day in ("today", "tomorrow")]
    (folder / "texts").write_text("".join(lines) * 20)
    PrivacyLedger(folder / "privacy_ledger.jsonl", ledger_header()).record(1, clip_norm=0.5)
    return folder


def test_every_task_can_be_asked_for_help():
    words = [sys.executable, "-c", IMPORT_ALL, str(list(EXTRAS)).replace("'", '"')]
    subprocess.run(words, check=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)})


@needs_litert
def test_light_installation_types_and_evaluates_exports(folder):
    one, other = (shipped_files.ROOT / "models" / name for name in ("messages", "base"))
    out = folder / "compared"
    text = f"--text={folder}/texts"
    lines = [
        ["verify", one / "keyboard.tflite"],
        ["compare", one / "keyboard.tflite", other / "keyboard.ngram", text, f"--out={out}"],
    ]
    if "play" in console.commands():
        lines.append(["play", one / "keyboard.tflite", "--terminal"])
    actual = answers(lines, without=EXTRAS)
    for line, answer in zip(lines, actual, strict=True):
        assert answer.code == 0, (line[0], answer.stderr)
    if "play" in console.commands():
        assert "see you" in actual[-1].stdout or "keystrokes" in actual[-1].stdout


def test_missing_extra_is_a_one_line_error(folder):
    people = [f"{name}\tsee you {n} today\n" for name in "abcdefghijkl" for n in range(9)]
    (folder / "people.tsv").write_text("".join(people))
    lines = [
        ["prepare", folder / "people.tsv", f"--out={folder}/store"],
        [
            "train",
            f"--store={folder}/store",
            f"--workdir={folder}/run",
            "--set=train.clients_per_round=2",
        ],
        ["privacy", folder],
        ["report", folder],
    ]
    prepared, *others = answers(lines, without=EXTRAS)
    assert prepared.code == 0, prepared.stderr
    commands = (
        f"--no-deps -r {shipped_files.ROOT}/requirements.txt",
        "'tff-keyboard[privacy]'",
        "'tff-keyboard[report]'",
    )
    for answer, command in zip(others, commands, strict=True):
        assert answer.code == 4
        *steps, last = answer.stderr.splitlines()
        assert f"pip install {command}" in last
        assert not any("error" in step for step in steps)


def test_a_run_is_reported_without_its_strips(folder):
    run = ROOT / "tests" / "golden" / "0.2.0" / "finished"
    without = sorted({*EXTRAS} - {"jinja2", "matplotlib"})
    [answer] = answers([["report", run, f"--out={folder}/run.html"]], without=without)
    assert answer.code == 0, answer.stderr
    assert "no strips. `report` requires tensorflow" in answer.stdout
    page = (folder / "run.html").read_text()
    assert "pip install &#39;tff-keyboard[privacy]&#39;" in page
    assert "Example suggestions" not in page


def test_other_missing_module_is_a_bug(folder):
    [answer] = answers([["report", folder]], without=["markupsafe"])
    assert (answer.code, answer.stderr.splitlines()[0]) == (1, "Traceback (most recent call last):")
