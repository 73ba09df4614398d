"""What is wrong with the arguments is said before anything heavy is imported."""

import os
import subprocess
import sys

import pytest

from tests.fakes import ledger_header
from tff_keyboard.privacy.ledger import PrivacyLedger

HEAVY = ("tensorflow", "tensorflow_federated", "dp_accounting", "ai_edge_litert", "matplotlib")


def run(*arguments):
    """The exit code, the error and which heavy packages were imported."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tasks", *map(str, arguments)],
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = done.stderr.splitlines()
    imported = {line.split("|")[-1].strip() for line in lines if line.startswith("import time:")}
    errors = [line for line in lines if not line.startswith("import time:")]
    return done.returncode, "\n".join(errors), imported & set(HEAVY)


@pytest.mark.parametrize(
    "arguments, code, says",
    [
        (["train", "--workdir={}/run", "--store={}/none"], 3, "is not a client store"),
        (["train-server", "--workdir={}/run", "--like={}/none"], 2, "No config file at"),
        (["audit-tail", "{}/a", "{}/b"], 3, "there is no saved model here"),
        (["attack", "--workdir={}/runs", "--config={}/no.toml"], 2, "No config file at"),
        (["export", "{}/none"], 3, "there is no saved model here"),
        (["evaluate", "{}/none"], 4, "is not a run directory"),
        (["communication", "{}/none"], 4, "is not a run directory"),
        (["merge-vocabulary", "{}/a", "{}/b", "--out={}/v"], 3, "is not a client store"),
        (["personalise", "{}/k.tflite", "--text={}/texts", "--user=eve"], 3, "has no messages"),
        (["privacy", "{}/none"], 4, "made no privacy claim"),
        (["prepare", "{}/texts"], 2, "Give --out=FOLDER"),
        (["compare", "{}/none", "unigram"], 2, "is no model"),
        (["play"], 2, "Give one or two .tflite files"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_arguments_cost_no_import(tmp_path, arguments, code, says):
    (tmp_path / "texts").write_text("ann\thello\n")
    found, error, imported = run(*(word.format(tmp_path) for word in arguments))
    assert (found, imported) == (code, set())
    assert says in error
    assert "\n" not in error


def test_privacy_needs_no_tensorflow(tmp_path):
    PrivacyLedger(tmp_path / "privacy_ledger.jsonl", ledger_header()).record(1, clip_norm=0.5)
    code, error, imported = run("privacy", tmp_path)
    assert (code, error, imported) == (0, "", {"dp_accounting"})
