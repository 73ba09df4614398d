"""The formal guarantee next to an audit: the claim of the run's own statement, never more."""

import dataclasses

import pytest

from tests.support.fakes import ledger_header
from tff_keyboard.privacy.claims.guarantee import total_guarantee
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.privacy.ledger.ledger_header import Ancestor
from tff_keyboard.privacy.mechanisms.noise_key import FIXED_NONCE
from tff_keyboard_lab.audits import tail_report
from tff_keyboard_lab.audits.neighbouring_runs import formal_guarantee
from tff_keyboard_lab.audits.tail_audit import Settings, both_directions
from tff_keyboard_lab.tests.audits.test_tail_audit import ratios

ROUNDS = 3
ALONE = ledger_header(uniform_sampling=False, key_id="me")
OPEN = Ancestor(model="runs/open", people="same")
PRIVATE = Ancestor(
    model="runs/first",
    people="same",
    rounds=ROUNDS,
    header=dataclasses.replace(ALONE, key_id="first"),
)


def run_of(tmp_path, header, config=""):
    (tmp_path / "config.toml").write_text(config)
    ledger = PrivacyLedger(tmp_path / "privacy_ledger.jsonl", header)
    for number in range(1, ROUNDS + 1):
        ledger.record(number)
    return tmp_path


def last_line(run):
    settings = Settings(num_texts=10_000, num_words=10, delta=1e-3)
    pair = dataclasses.replace(both_directions(ratios(2), settings), name="x")
    result = tail_report.TailAudit(
        settings=settings, full=str(run), formal=formal_guarantee(run / "model"), pairs=[pair]
    )
    return tail_report.table(result).splitlines()[-1]


@pytest.mark.parametrize(
    ("changes", "config"),
    [
        ({"ancestors": (OPEN,)}, ""),
        ({}, '[fine_tuning]\ngeneral_store = "general"\n'),  # its record of clients is lost
    ],
    ids=["earlier run without privacy", "rehearsal"],
)
def test_a_run_without_a_claim_has_no_formal_guarantee(tmp_path, changes, config):
    run = run_of(tmp_path, dataclasses.replace(ALONE, **changes), config)
    assert privacy_statement(run / "privacy_ledger.jsonl").startswith("NO CLAIM")
    line = last_line(run)
    assert line.startswith("Formal guarantee: NO CLAIM")
    assert line.endswith(f"tff-keyboard privacy {run}")
    assert "epsilon" not in line


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({"ancestors": (PRIVATE,)}, ""),
        ({"vocabulary_rho": 0.1, "vocabulary_sha256": "v"}, ""),
        ({"noise_source": FIXED_NONCE}, "[simulation: no guarantee]"),
        ({"unchecked_parts": ("client.type = my.py:Work",)}, "[own part, not checked]"),
    ],
    ids=["earlier private run", "private vocabulary", "simulation", "own part"],
)
def test_the_formal_guarantee_is_the_one_of_the_statement(tmp_path, changes, label):
    header = dataclasses.replace(ALONE, **changes)
    total = total_guarantee(header, ROUNDS)
    assert (total.epsilon > total_guarantee(ALONE, ROUNDS).epsilon) == (not label)
    line = last_line(run_of(tmp_path, header))
    assert f"epsilon {total.epsilon:.2f} {label}".strip() in line


def test_a_projection_gives_the_epsilon_of_the_released_models(tmp_path):
    first = dataclasses.replace(PRIVATE.header, noise_cohort_size=500)
    header = dataclasses.replace(
        ALONE, noise_cohort_size=500, ancestors=(dataclasses.replace(PRIVATE, header=first),)
    )
    weak = dataclasses.replace(ALONE, noise_multiplier=10 / 500)
    earlier = dataclasses.replace(weak, key_id="first")
    weak = dataclasses.replace(weak, ancestors=(dataclasses.replace(PRIVATE, header=earlier),))
    expected = total_guarantee(weak, ROUNDS).epsilon
    assert f"epsilon {expected:.2f} at delta" in last_line(run_of(tmp_path, header))
