"""Word lists are included in the accounting of their run."""

import dataclasses
import re

import pytest

from tests.privacy.ledger.test_lineage import OURS, TREE, make_run
from tff_keyboard.privacy.claims import composed_statement
from tff_keyboard.privacy.claims.guarantee import guarantee_of, total_guarantee
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger import people
from tff_keyboard.privacy.ledger.lineage import ancestors
from tff_keyboard.privacy.ledger.list_releases import list_header, lists_of, record
from tff_keyboard.storage.errors import RunDirectoryError

RUN = dataclasses.replace(TREE, key_id="me")


def released(path, *multipliers):
    """Creates a run with a word list for each multiplier."""
    run = make_run(path, OURS, header=RUN)
    for z in multipliers:
        record(run, list_header(RUN, noise_multiplier=z, clip_norm=5.0, people=3))
    return run


def test_list_costs_one_round_with_all_clients():
    header = list_header(RUN, noise_multiplier=2.0, clip_norm=5.0, people=3)
    assert guarantee_of(header, 1).rho == pytest.approx(1 / 8)
    assert guarantee_of(header, 3).rho == pytest.approx(3 / 8)


def test_the_statement_adds_up_lists_of_all_settings(tmp_path):
    run = released(tmp_path / "run", 2.0, 2.0, 4.0)
    assert sorted(n for _, n in lists_of(run)) == [1, 2]
    total = total_guarantee(RUN, 3, lists_of(run))
    assert total.rho == pytest.approx(guarantee_of(RUN, 3).rho + 2 / 8 + 1 / 32)
    text = privacy_statement(run / "privacy_ledger.jsonl")
    assert "2: clip norm 5, noise multiplier 2" in text
    assert re.search(rf"^epsilon +{total.epsilon:.2f}", text, re.MULTILINE)
    none = released(tmp_path / "none")
    assert "word lists" not in privacy_statement(none / "privacy_ledger.jsonl")


def test_runs_together_count_their_lists(tmp_path):
    runs = [released(tmp_path / "a", 2.0), make_run(tmp_path / "b", OURS, header=TREE)]
    parts = {run.name: composed_statement.LedgerAndPeople.of_run(run) for run in runs}
    rho = 2 * guarantee_of(TREE, 3).rho + 1 / 8
    assert "are 3 releases" in composed_statement.composed_statement(parts)
    history = [r for part in parts.values() for r in composed_statement.history(
        part.header, part.rounds, part.lists)]  # fmt: skip
    assert composed_statement.composed(history).rho == pytest.approx(rho)


def test_runs_that_start_from_the_run_count_its_lists(tmp_path):
    run = released(tmp_path / "run", 2.0)
    before = ancestors(str(run), ours=[people.salted(OURS)])
    assert [(one.people, one.rounds) for one in before] == [("same", 3), ("same", 1)]
    later = dataclasses.replace(TREE, key_id="later", ancestors=before)
    assert total_guarantee(later, 3).rho == pytest.approx(2 * guarantee_of(TREE, 3).rho + 1 / 8)


def test_a_damaged_record_is_an_error(tmp_path):
    run = released(tmp_path / "run", 2.0)
    (path,) = run.glob("list_ledger_*.jsonl")
    path.write_bytes(path.read_bytes().replace(b"word list", b"word lost"))
    with pytest.raises(RunDirectoryError, match="line 1 is damaged"):
        record(run, list_header(RUN, noise_multiplier=2.0, clip_norm=5.0, people=3))
    with pytest.raises(RunDirectoryError, match="line 1 is damaged"):
        privacy_statement(run / "privacy_ledger.jsonl")
