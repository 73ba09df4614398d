"""The printed statement names every assumption, and its epsilon is that of the accounting."""

import dataclasses
import re

import pytest

from tests.support.fakes import ledger_header
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.claims import plan_remarks
from tff_keyboard.privacy.claims.guarantee import guarantee_of
from tff_keyboard.privacy.claims.statement import privacy_statement
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.privacy.ledger.ledger_header import CHECK_IN, Ancestor
from tff_keyboard.privacy.mechanisms import noise_key
from tff_keyboard.privacy.registry.blt import BltConfig
from tff_keyboard.privacy.registry.gaussian import Gaussian
from tff_keyboard.privacy.registry.gaussian_adaptive import GaussianAdaptive
from tff_keyboard.privacy.registry.tree import Tree
from tff_keyboard.storage.errors import RunDirectoryError

HEADER = ledger_header(population=10_000, clients_per_round=100, selected_per_round=100)
GBOARD = dataclasses.replace(
    HEADER,
    mechanism=Tree(),
    noise_multiplier=7.0,
    delta=1e-10,
    clients_per_round=6500,
    selected_per_round=6500,
    population=10_000_000,
    uniform_sampling=False,
    min_separation_rounds=313,
)


def statement(tmp_path, header, rounds):
    ledger = PrivacyLedger(tmp_path / "privacy_ledger.jsonl", header)
    for round_num in range(1, rounds + 1):
        ledger.record(round_num, clip_norm=header.clip_norm / round_num, clients=100)
    return privacy_statement(tmp_path / "privacy_ledger.jsonl")


def test_prints_the_figures_of_a_tree(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda fd: None)  # 2,000 rounds
    text = statement(tmp_path, GBOARD, 2000)
    values = dict(line.split("  ", 1) for line in text.split("\n\n")[0].splitlines())
    values = {key.strip(): value.strip() for key, value in values.items()}
    expected = accounting.tree_gaussian(
        noise_multiplier=7.0, rounds=2000, delta=1e-10, min_separation=313
    )
    assert values["epsilon"].startswith(f"{expected.epsilon:.2f}")
    assert values["rho (zCDP)"] == f"{expected.rho:.2f}"
    assert values["delta"] == "1e-10"
    assert "at least 313 rounds" in values["sampling"]
    assert values["unit"].startswith("one client")
    assert values["adjacency"] == accounting.ZERO_OUT_ONE


@pytest.mark.parametrize(
    "mechanism", [Tree(), Gaussian(is_discrete=True)], ids=["tree", "discrete"]
)
def test_says_what_the_server_of_devices_sees(mechanism, tmp_path):
    devices = dataclasses.replace(
        GBOARD, mechanism=mechanism, sampling=CHECK_IN, population=0, secret_cohorts=False
    )
    texts = {}
    for is_masked in (False, True):
        folder = tmp_path / str(is_masked)
        folder.mkdir()
        header = dataclasses.replace(devices, secure_sums=is_masked)
        texts[is_masked] = statement(folder, header, 5)
    assert "the update of each device, before it adds the noise" in texts[False]
    assert "the exact sum of the updates of a round, before it adds the noise" in texts[True]
    step = 0.5 * (7.0 if mechanism.is_discrete else 1.0) / 2**20
    assert f"towards zero, to multiples of {step:.3g}, and sums do not wrap: adds 0" in texts[True]
    assert "server sees" not in statement(tmp_path, GBOARD, 5)
    figures = [re.findall(r"^(?:epsilon|rho|delta).*$", text, re.M) for text in texts.values()]
    assert len(figures[0]) == 3
    assert figures[0] == figures[1]
    remarks = "\n".join(plan_remarks.plan_remarks(dataclasses.replace(devices, secure_sums=True)))
    assert "* The server sees: the exact sum of the updates of a round" in remarks


def test_fixed_size_sampling_is_accounted_as_such(tmp_path):
    text = statement(tmp_path, HEADER, 3)
    assert "fixed size, 100 of 10000 clients per round" in text
    assert accounting.REPLACE_ONE in text
    assert "with the run's secret key" in text
    assert "the sampled clients of each round stay secret" in text
    expected = accounting.fixed_size_gaussian(
        noise_multiplier=1.0, population=10_000, cohort=100, rounds=3, delta=1e-6
    )
    assert f"{expected.epsilon:.2f}" in text


def test_without_uniform_cohorts_no_amplification_is_claimed(tmp_path):
    header = dataclasses.replace(HEADER, uniform_sampling=False, min_separation_rounds=5)
    guarantee = guarantee_of(header, 12)
    assert guarantee.rho == 3 / 2  # joins at most rounds 1, 6, 11
    assert guarantee.epsilon > guarantee_of(HEADER, 12).epsilon
    assert "no amplification by sampling is claimed" in statement(tmp_path, header, 2)


def test_cohorts_known_from_the_seed_do_not_amplify(tmp_path):
    header = dataclasses.replace(HEADER, secret_cohorts=False)
    guarantee = guarantee_of(header, 12)
    assert guarantee.rho == 12 / 2
    text = statement(tmp_path, header, 12)
    assert "cohorts follow from `train.seed`, which is not secret: no amplification" in text
    assert "stay secret" not in text
    projected = dataclasses.replace(header, noise_cohort_size=1000)
    assert guarantee_of(projected, 12).epsilon == guarantee.epsilon


@pytest.mark.parametrize(
    "source, row, caveat",
    [
        (noise_key.SECRET, "a secret outside the directory", ""),
        (noise_key.NONCE, "is in the run directory", "noise_nonce can remove the noise"),
        (noise_key.FIXED_NONCE, "simulation: AES-256", "SIMULATION: the nonce"),
    ],
)
def test_source_of_the_noise_is_stated(tmp_path, source, row, caveat):
    text = statement(tmp_path, dataclasses.replace(HEADER, noise_source=source, key_id="ab"), 2)
    assert row in text
    assert caveat in text
    assert ("simulation" in text.lower()) == (source == noise_key.FIXED_NONCE)


def test_a_blt_run_prints_the_figures_of_its_schedule(tmp_path, monkeypatch):
    """Gboard's schedule, with the accounting of the matrix mechanism."""
    monkeypatch.setattr("os.fsync", lambda fd: None)  # 2,000 rounds
    best = BltConfig().mechanism(rounds=2000, min_separation_rounds=313)
    header = dataclasses.replace(
        GBOARD,
        mechanism=best,
        noise_multiplier=3.29,
    )
    text = statement(tmp_path, header, 2000)
    values = dict(line.split("  ", 1) for line in text.split("\n\n")[0].splitlines())
    values = {key.strip(): value.strip() for key, value in values.items()}
    assert "buffered linear Toeplitz" in values["mechanism"]
    assert "none assumed" in values["sampling"]
    assert values["accounting"] == "zCDP, exact Gaussian"
    expected = accounting.matrix_gaussian(
        noise=best.matrix(),
        noise_multiplier=3.29,
        rounds=2000,
        delta=1e-10,
        min_separation=313,
    )
    assert values["epsilon"].startswith(f"{expected.epsilon:.2f}")
    assert values["rho (zCDP)"] == f"{expected.rho:.2f}"


def test_missing_noise_is_stated(tmp_path):
    text = statement(tmp_path, dataclasses.replace(HEADER, noise_multiplier=0.0), 2)
    assert "infinite: no guarantee" in text
    assert "no privacy" in text


def test_private_fedatt_and_adaptive_clips_are_named(tmp_path):
    header = dataclasses.replace(HEADER, mechanism=GaussianAdaptive(), aggregator="private_fedatt")
    text = statement(tmp_path, header, 2)
    assert "docs/privacy/private_fedatt.md" in text
    assert "0.5 in the first round, 0.25 in the last" in text


def test_a_run_without_a_claim_says_so(tmp_path):
    with pytest.raises(RunDirectoryError, match="made no privacy claim"):
        privacy_statement(tmp_path / "privacy_ledger.jsonl")


@pytest.mark.parametrize(
    "noise, words",
    [(1.0, ""), (0.2, ": weak guarantee"), (0.01, ": no protection")],
)
def test_large_epsilon_is_stated_as_no_protection(tmp_path, noise, words):
    header = dataclasses.replace(HEADER, noise_multiplier=noise, uniform_sampling=False)
    text = statement(tmp_path, header, 3)
    epsilon = guarantee_of(header, 3).epsilon
    assert (epsilon > 10, epsilon > 100) == (bool(words), "no protection" in words)
    assert f"{epsilon:.2f}{words}\n" in text
    assert ("above 10 is a weak guarantee" in text) == bool(words)


@pytest.mark.parametrize(
    "delta, words",
    [
        (1e-5, ""),
        (2e-5, "Delta 2e-05 is not much smaller than 1 / population = 0.0001: it allows revealing"),
        (1e-4, "Delta 0.0001 is not below 1 / population = 0.0001: it allows revealing the whole"),
        (0.5, "probability 0.5 for each client, which is 5e+03 of the 10000 clients on average"),
    ],
    ids=["a tenth", "a fifth", "equal", "half"],
)
def test_a_large_delta_is_named(tmp_path, delta, words):
    header = dataclasses.replace(HEADER, delta=delta, noise_multiplier=8.0)
    text = statement(tmp_path, header, 2)
    assert words in text
    assert ("whatever epsilon is" in text) == bool(words)
    assert ("`aggregation.privacy.delta` to at most 1e-05" in text) == bool(words)


def test_the_delta_of_a_projection_is_compared_with_the_larger_population(tmp_path):
    header = dataclasses.replace(HEADER, delta=1e-5, noise_cohort_size=1000)
    assert "1 / population = 1e-05" in statement(tmp_path, header, 1)


def test_devices_have_an_unknown_population(tmp_path):
    header = dataclasses.replace(HEADER, sampling="check_in", uniform_sampling=False, population=0)
    text = statement(tmp_path, header, 1)
    assert "Delta 1e-06: the number of devices is unknown." in text
    assert "for at most 100,000 devices" in text


def test_epsilon_of_a_release_is_never_printed_as_0(tmp_path):
    """F9: 2 rounds with delta 0.5 and population 231 printed epsilon 0.00."""
    header = dataclasses.replace(HEADER, delta=0.5, noise_multiplier=5.0)
    assert guarantee_of(header, 2).epsilon == 0
    text = statement(tmp_path / "released", header, 2)
    assert re.search(r"^epsilon +below 0\.001 \(delta alone bounds the effect", text, re.M)
    assert re.search(r"^epsilon +0\.00$", statement(tmp_path / "none", header, 0), re.M)


def test_vocabulary_and_metrics_are_private_or_named(tmp_path):
    chosen = statement(tmp_path / "chosen", dataclasses.replace(HEADER, truecase_forms=7), 1)
    assert "unbounded privacy cost" in chosen
    assert "The 7 forms with capitals in truecase.txt" in chosen
    assert "truecase.txt" not in statement(tmp_path / "none", HEADER, 1)
    facts = {"vocabulary_rho": 0.25, "vocabulary_delta": 5e-9, "vocabulary_sha256": "v"}
    new = statement(tmp_path / "new", dataclasses.replace(HEADER, **facts), 1)
    assert "random weights" in new
    assert "withheld_metrics.jsonl" in new
    assert "The vocabulary is part of the accounting: rho 0.25" in new
    assert "composed by" in new


def test_own_parts_of_this_run_and_of_earlier_runs_are_named(tmp_path):
    parts = ("client.type = mine.py:work",)
    before = dataclasses.replace(HEADER, unchecked_parts=("aggregation.rule.type = other:mean",))
    header = dataclasses.replace(
        HEADER,
        unchecked_parts=parts,
        ancestors=tuple(
            Ancestor(model=f"runs/{people}", people=people, rounds=2, header=before)
            for people in ("same", "none")
        ),
    )
    text = statement(tmp_path, header, 3)
    assert "own part, client.type = mine.py:work, keeps the sensitivity" in text
    assert "own part of the earlier run runs/same, aggregation.rule.type = other:mean" in text
    assert "runs/none, aggr" not in text  # it has no client of this run
    for words in (
        "\n".join(plan_remarks.plan_remarks(header)),
        plan_remarks.resumed_line(tmp_path / "privacy_ledger.jsonl", 3),
    ):
        assert "mine.py:work" in words
        assert "other:mean" in words


def test_no_control_character_of_a_ledger_is_printed(tmp_path):
    model = "runs/\x1b]0;title\x07\nepsilon  0.01"
    header = ledger_header(initial_model=model, ancestors=(Ancestor(model=model, people="same"),))
    text = statement(tmp_path, header, 1)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\nepsilon  0.01" not in text
