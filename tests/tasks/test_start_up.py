"""Wrong arguments are reported before slow imports."""

import pytest

from tasks import __main__ as console
from tests.support.console import ROOT, answers
from tests.support.fakes import ledger_header
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger

HEAVY = {"tensorflow", "tensorflow_federated", "dp_accounting", "ai_edge_litert", "matplotlib"}


ALL_WRONG = [
    (["train", "--workdir={}/run", "--store={}/none"], 3, "there is no such folder"),
    (["train", "--workdir={}/run"], 2, "Pass --store=FOLDER to train as `tff-keyboard advise"),
    (["train-server", "--workdir={}/run", "--like={}/none"], 2, "No config file at"),
    (["audit-tail", "{}/a", "{}/b"], 3, "there is no saved model"),
    (["attack", "--workdir={}/runs", "--config={}/no.toml"], 2, "No config file at"),
    (["export", "{}/none"], 3, "there is no saved model"),
    (["export", "{}/none", "--out={}/k.bin"], 2, "--out must end in .tflite"),
    (["evaluate", "{}/none"], 4, "is not a run directory"),
    (["merge-vocabulary", "{}/a", "{}/b", "--out={}/v"], 3, "there is no such folder"),
    (["personalise", "{}/k.tflite", "--text={}/texts", "--user=eve"], 3, "has no messages"),
    (["privacy", "{}/none"], 4, "none does not exist"),
    (["prepare", "{}/texts"], 2, "Pass --out=FOLDER"),
    (["compare", "{}/none", "unigram"], 2, "is not a model"),
    (["play"], 2, "Pass one to three .tflite files"),
    (["play", "{}/none.tflite"], 3, "none.tflite: cannot be read"),
    (["play", "{}/texts"], 3, "texts: not a TFLite model"),
    (["play", "{}"], 3, "is a folder. Pass the .tflite file"),
    (["play", "{}/k.tflite"], 3, "the manifest of the model is missing"),
    (["verify", "{}/none.tflite"], 3, "none.tflite: cannot be read"),
    (["verify", "{}/texts"], 3, "texts: not a TFLite model"),
    (["personalise", "{}/texts", "--text={}/texts", "--user=ann"], 3, "not a TFLite model"),
]
WRONG = [line for line in ALL_WRONG if line[0][0] in console.commands()]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Returns the answer to each wrong command line."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "texts").write_text("ann\thello\n")
    (folder / "k.tflite").write_bytes(b"\0\0\0\0TFL3")
    lines = [[word.format(folder) for word in arguments] for arguments, _, _ in WRONG]
    return answers(lines)


@pytest.mark.parametrize("place", range(len(WRONG)), ids=lambda place: " ".join(WRONG[place][0]))
def test_wrong_arguments_cost_no_import(found, place):
    answer, (_, code, says) = found[place], WRONG[place]
    assert (answer.code, answer.modules & HEAVY) == (code, set())
    assert says in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_privacy_needs_no_tensorflow(tmp_path):
    PrivacyLedger(tmp_path / "privacy_ledger.jsonl", ledger_header()).record(1, clip_norm=0.5)
    [answer] = answers([["privacy", tmp_path]])
    assert (answer.code, answer.stderr, answer.modules & HEAVY) == (0, "", {"dp_accounting"})


def test_a_vocabulary_is_merged_without_tensorflow(tmp_path):
    store = ROOT / "tests" / "golden" / "0.2.0" / "store"  # git makes it readable to all
    [answer] = answers([["merge-vocabulary", store, store, f"--out={tmp_path}/words"]])
    assert (answer.code, answer.modules & HEAVY) == (0, set())
    assert "words: " in answer.stdout
    assert all(line.startswith("warning: ") for line in answer.stderr.splitlines())
