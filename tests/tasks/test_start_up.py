"""What is wrong with the arguments is said before anything heavy is imported."""

import pytest

from tests.console import answers
from tests.fakes import ledger_header
from tff_keyboard.privacy.ledger import PrivacyLedger

HEAVY = {"tensorflow", "tensorflow_federated", "dp_accounting", "ai_edge_litert", "matplotlib"}


WRONG = [
    (["train", "--workdir={}/run", "--store={}/none"], 3, "there is no such folder"),
    (["train-server", "--workdir={}/run", "--like={}/none"], 2, "No config file at"),
    (["audit-tail", "{}/a", "{}/b"], 3, "there is no saved model here"),
    (["attack", "--workdir={}/runs", "--config={}/no.toml"], 2, "No config file at"),
    (["export", "{}/none"], 3, "there is no saved model here"),
    (["evaluate", "{}/none"], 4, "is not a run directory"),
    (["communication", "{}/none"], 4, "is not a run directory"),
    (["merge-vocabulary", "{}/a", "{}/b", "--out={}/v"], 3, "there is no such folder"),
    (["personalise", "{}/k.tflite", "--text={}/texts", "--user=eve"], 3, "has no messages"),
    (["privacy", "{}/none"], 4, "made no privacy claim"),
    (["prepare", "{}/texts"], 2, "Give --out=FOLDER"),
    (["compare", "{}/none", "unigram"], 2, "is no model"),
    (["play"], 2, "Give one or two .tflite files"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The answer to each wrong command line, by its task."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "texts").write_text("ann\thello\n")
    lines = [[word.format(folder) for word in arguments] for arguments, _, _ in WRONG]
    return dict(zip((line[0] for line in lines), answers(lines), strict=True))


@pytest.mark.parametrize("arguments, code, says", WRONG, ids=[line[0][0] for line in WRONG])
def test_wrong_arguments_cost_no_import(found, arguments, code, says):
    answer = found[arguments[0]]
    assert (answer.code, answer.modules & HEAVY) == (code, set())
    assert says in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_privacy_needs_no_tensorflow(tmp_path):
    PrivacyLedger(tmp_path / "privacy_ledger.jsonl", ledger_header()).record(1, clip_norm=0.5)
    [answer] = answers([["privacy", tmp_path]])
    assert (answer.code, answer.stderr, answer.modules & HEAVY) == (0, "", {"dp_accounting"})
