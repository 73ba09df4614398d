"""The joint guarantee of a fleet's run and of its branch that was restored from a backup."""

import pytest

from tests.support.fakes import ledger_header
from tff_keyboard.privacy.claims.composed_statement import LedgerAndClients, composed_statement
from tff_keyboard.privacy.claims.guarantee import Release, composed, distinct
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger, refuse_shared_noise
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN
from tff_keyboard.storage.errors import RunDirectoryError

HEADER = ledger_header(
    key_id="ab", noise_source="nonce", sampling=CHECK_IN, uniform_sampling=False, population=0
)


def release(tags):
    return Release(HEADER, len(tags), tags[-1] if tags else "", tuple(tags))


def test_a_later_ledger_of_the_same_branch_counts_once():
    assert distinct([release("ab"), release("abcd"), release("a")]) == [release("abcd")]
    assert distinct([release("abcd"), release("")]) == [release("abcd")]


def test_two_branches_are_two_releases():
    branches = [release("abcd"), release("abxy"), release("ab")]
    assert distinct(branches) == branches[:2]
    assert distinct(branches[::-1]) == branches[1::-1]
    total, alone = composed(branches[:2]), composed(branches[:1])
    assert total.rho == pytest.approx(2 * alone.rho)
    assert total.epsilon < float("inf")


def test_an_ancestor_has_only_its_last_tag():
    ancestor = Release(HEADER, 2, "b")
    assert distinct([release("abcd"), ancestor]) == [release("abcd")]
    assert len(distinct([release("axcd"), ancestor])) == 2
    longer = Release(HEADER, 5, "e")  # it may or may not contain `abcd`
    assert len(distinct([release("abcd"), longer])) == 2


def test_the_same_key_without_tags_has_no_guarantee():
    one, other = Release(HEADER, 2), Release(ledger_header(key_id="ab", clip_norm=9.0), 2)
    assert composed([one, other]).epsilon == float("inf")


def test_statement_of_both_directories(tmp_path):
    paths = []
    for name, last in (("run", "c"), ("restored", "x")):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "privacy_ledger.jsonl")
        ledger = PrivacyLedger(paths[-1], HEADER)
        for round_num, tag in enumerate(["a", "b", last], start=1):
            ledger.record(round_num, content=tag)
    refuse_shared_noise(paths)
    text = composed_statement(
        {path.parent.name: LedgerAndClients.of_run(path.parent) for path in paths}
    )
    assert "run, restored are 2 releases for one population: epsilon" in text
    for name in ("untagged", "also untagged"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "privacy_ledger.jsonl")
        PrivacyLedger(paths[-1], HEADER).record(1)
    with pytest.raises(RunDirectoryError, match="share a noise key"):
        refuse_shared_noise(paths)
