"""The runs cover every mechanism, and the accounting of a launch takes no second."""

import pathlib

import pytest

from benchmarks import private_runs
from tests.fakes import ledger_header
from tff_keyboard.privacy.ledger import PrivacyLedger
from tff_keyboard.privacy.mechanism import NAMES

KEPT = pathlib.Path(__file__).parents[2] / "docs/results/private_runs.txt"


@pytest.mark.parametrize("name", private_runs.RUNS)
def test_every_run_is_private(name):
    config = private_runs.run_config(name, pathlib.Path("data/demo"))
    assert config.aggregation.is_private
    assert config.aggregation.privacy.noise_multiplier == 2


def test_every_mechanism_has_a_run_and_is_in_the_kept_output():
    configs = {
        name: private_runs.run_config(name, pathlib.Path("store")) for name in private_runs.RUNS
    }
    assert {config.aggregation.privacy.mechanism for config in configs.values()} == set(NAMES)
    assert "private_fedatt" in {config.aggregation.rule.name for config in configs.values()}
    kept = KEPT.read_text(encoding="utf-8")
    assert [line[3:] for line in kept.splitlines() if line.startswith("== ")] == list(configs)
    assert kept.count("\nepsilon ") == len(configs)  # one of them "(projection)"


def test_a_ledger_is_shown_with_its_statement(tmp_path):
    (tmp_path / "run").mkdir()
    header = ledger_header(noise_multiplier=4.0)
    ledger = PrivacyLedger(tmp_path / "run/privacy_ledger.jsonl", header)
    for round_num in (1, 2):
        ledger.record(round_num)
    text = private_runs.described(tmp_path / "run")
    assert text.startswith("== run\n{")
    assert '"round": 2' in text
    assert "\nrounds released   2\n" in text
    assert "| run | mean | 4 |" in private_runs.summary([tmp_path / "run"])


@pytest.mark.parametrize("name", NAMES)
def test_a_launch_is_accounted_for_in_a_second(name):
    choosing, accounting, epsilon = private_runs.launch(name)
    assert choosing < 10  # CPU seconds; measured 0.3 at most
    assert accounting < 1  # measured 0.4 at most
    assert 0.1 < epsilon < 10
