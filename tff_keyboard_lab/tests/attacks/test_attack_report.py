"""Figures of an attacked run next to the clean one, and their table."""

import math

import numpy as np
import pytest

from tff_keyboard_lab.attacks import attack_report
from tff_keyboard_lab.tests.study.results.test_rows import evaluations

WORDS = 10.0 * np.arange(1, 6)
CLEAN = evaluations(0.5 * WORDS, 3.0 * WORDS)


def row(hits, nats, attack, hit=None):
    own = evaluations(hits, nats)
    clean = None if attack == "clean" else CLEAN
    return attack_report.Row(
        rule="mean",
        attack=attack,
        share=0.1,
        share_of_seats=0.1,
        seed=1,
        rounds=2,
        clients_per_round=4,
        refused_updates=0,
        impossible_claims=0,
        capped_weights=0,
        rejected_rounds=0,
        figures=attack_report.figures(own, clean, hit),
    )


def test_figures_are_differences_of_points_and_factors():
    clean = row(0.5 * WORDS, 3.0 * WORDS, "clean")
    assert clean.figures.recall["held_out"]["value"] == pytest.approx(0.5)
    assert clean.figures.perplexity["held_out"]["value"] == pytest.approx(math.exp(3.0))
    assert "difference" not in clean.to_json()
    hit = row(0.4 * WORDS, 3.5 * WORDS, "sign_flip")
    assert hit.figures.difference["held_out"]["value"] == pytest.approx(-0.1)
    assert hit.figures.perplexity_factor["held_out"]["value"] == pytest.approx(math.exp(0.5))
    assert hit.to_json()["verdict"] == {"validation": "fails", "held_out": "fails"}
    table = attack_report.table([clean, hit]).splitlines()
    assert "50.00 %" in table[1]
    assert "to clean" in table[0]
    assert "-10.00 [-10.00, -10.00] fails" in table[2]
    assert table[2].endswith("33.1, 1.65")


def test_a_number_that_does_not_exist_is_a_dash():
    lost = row(0.5 * WORDS, 3.0 * WORDS, "clean")
    lost.figures.recall["held_out"]["value"] = None
    assert " - %" in attack_report.table([lost])


def test_a_backdoor_says_how_often_it_opens():
    opened = row(0.5 * WORDS, 3.0 * WORDS, "backdoor", {"validation": 0.5, "held_out": 0.25})
    assert opened.to_json()["hit"]["held_out"] == 0.25
    assert attack_report.table([opened]).splitlines()[1].endswith("1.00, hit 25 %")
