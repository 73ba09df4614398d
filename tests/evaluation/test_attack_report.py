"""Figures of an attacked run beside the clean one, and their table."""

import math

import numpy as np
import pytest

from tests.study.test_rows import evaluations
from tff_keyboard.evaluation import attack_report

WORDS = 10.0 * np.arange(1, 6)
CLEAN = evaluations(0.5 * WORDS, 3.0 * WORDS)


def row(hits, nats, attack):
    own = evaluations(hits, nats)
    clean = None if attack == "clean" else CLEAN
    return {"rule": "mean", "attack": attack, **attack_report.figures(own, clean)}


def test_figures_are_differences_of_points_and_factors():
    clean = row(0.5 * WORDS, 3.0 * WORDS, "clean")
    assert clean["recall"]["held_out"]["value"] == pytest.approx(0.5)
    assert clean["perplexity"]["held_out"]["value"] == pytest.approx(math.exp(3.0))
    assert "difference" not in clean
    hit = row(0.4 * WORDS, 3.5 * WORDS, "sign_flip")
    assert hit["difference"]["held_out"]["value"] == pytest.approx(-0.1)
    assert hit["perplexity_factor"]["held_out"]["value"] == pytest.approx(math.exp(0.5))
    assert hit["verdict"] == {"validation": "fails", "held_out": "fails"}
    table = attack_report.table([clean, hit]).splitlines()
    assert "50.00 %" in table[1]
    assert "to clean" in table[0]
    assert "-10.00 [-10.00, -10.00] fails" in table[2]
    assert table[2].endswith("33.1, 1.65")


def test_a_number_that_does_not_exist_is_a_dash():
    lost = row(0.5 * WORDS, 3.0 * WORDS, "clean")
    lost["recall"]["held_out"]["value"] = None
    assert " - %" in attack_report.table([lost])
