"""Each rule at its own clients' rate: which rate that is, and what it is compared with."""

import json

import numpy as np
import pytest

from benchmarks import attention_best_rate
from benchmarks.attention_settings import changed
from tests.benchmarks.test_sweep_tables import CONTROL, FEDATT, training


def at_rate(setting, rate, seed, validation, nats):
    return training(changed(setting, rate=rate), seed, nats, curve=[9.0] * 31 + [validation])


def both_seeds(setting, rate, validation, nats):
    return [at_rate(setting, rate, seed, v, nats) for seed, v in enumerate(validation, 1)]


POOR, FAIR, GOOD = [440, 450, 462], [400, 411, 420], [380, 390, 401]


@pytest.fixture
def trainings():
    """FedAtt is poor at the control's best rate, and has its own at a lower one."""
    return [
        *both_seeds(CONTROL, 0.5, [5.0, 4.0], FAIR),
        *both_seeds(CONTROL, 2.0, [4.2, 4.2], GOOD),  # the mean of logs is lower than of 5 and 4
        *both_seeds(FEDATT, 0.25, [4.0, 4.4], FAIR),
        *both_seeds(FEDATT, 0.5, [4.0, 4.0], GOOD),
        *both_seeds(FEDATT, 2.0, [6.0, 6.0], POOR),
        at_rate(FEDATT, 0.1, 1, 1.0, [1, 2, 3]),  # one seed of two
        training(changed(FEDATT, norm="spectral"), 1, [1, 2, 3], curve=[1.0] * 32),  # another rule
        training(changed(FEDATT, rate=0.5, share=0.3), 1, [1, 2, 3], curve=[1.0] * 32),
        training(changed(CONTROL, epsilon=0.8), 1, [1, 2, 3], curve=[1.0] * 32),
    ]


def test_each_rule_has_its_own_rate_and_is_held_to_the_controls_best(trainings):
    rows = json.loads(json.dumps(attention_best_rate.rows_at_best_rate(trainings)))
    assert [(row["rule"], row["rate"]) for row in rows] == [
        ("fedavg_epsilon", 2.0),
        ("fedatt", 0.5),
    ]
    control, fedatt = rows
    assert control["rates"] == [0.5, 2.0]
    assert control["is_at_the_end"]
    assert "factor" not in control
    assert fedatt["rates"] == [0.25, 0.5, 2.0]
    assert not fedatt["is_at_the_end"]
    assert fedatt["seeds"] == [1, 2]
    assert fedatt["held_out_perplexity"]["value"] == pytest.approx(np.exp(sum(GOOD) / 300))
    assert fedatt["factor"]["value"] == 1.0
    assert fedatt["factor_of_seeds"] == [1.0, 1.0]


def test_the_seeds_mean_is_of_logarithms():
    uneven = [
        *both_seeds(CONTROL, 0.5, [2.0, 8.0], FAIR),
        *both_seeds(CONTROL, 1.0, [4.5] * 2, GOOD),
    ]
    (row,) = attention_best_rate.rows_at_best_rate(uneven)
    assert row["rate"] == 0.5  # 4.0 beside 4.5, where means would have 5.0


def test_a_rule_with_one_rate_has_no_row(trainings):
    of_control = [each for each in trainings if each["setting"]["rule"]["name"] != "fedatt"]
    alone = [*of_control, *both_seeds(FEDATT, 0.5, [4.0, 4.0], GOOD)]
    assert [row["rule"] for row in attention_best_rate.rows_at_best_rate(alone)] == [
        "fedavg_epsilon"
    ]
    assert attention_best_rate.rows_at_best_rate([]) == []


def test_the_table_has_corpora_one_below_the_other(trainings):
    rows = attention_best_rate.rows_at_best_rate(trainings)
    lines = attention_best_rate.markdown({"by person": rows, "IID": rows}).splitlines()
    assert len(lines) == 6
    assert len({line.count("|") for line in lines}) == 1
    assert lines[2].startswith(
        "| by person | FedAvg, server rate 1.2 | 0.5, 2 | 2 (at the end) | 1, 2 | 49.6 ["
    )
    assert lines[5].startswith("| IID | FedAtt | 0.25, 0.5, 2 | 0.5 | 1, 2 | 49.6 [")
    assert lines[5].endswith("2 seeds |")
