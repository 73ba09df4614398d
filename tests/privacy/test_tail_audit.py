"""What the audit concludes of samples whose truth is known: a secret, nothing, ordinary texts."""

import json
import math

import numpy as np

from tff_keyboard.privacy import tail_audit, tail_report
from tff_keyboard.privacy.tail_audit import Settings, both_directions

SETTINGS = Settings(num_texts=10_000, num_words=10, delta=1e-5, epsilon=1.0, seed=1)
SPREAD = 0.05


def ratios(seed, secret_mass=0.0):
    """ln c of texts of each model; `secret_mass` of those "with" have ln c = -ln 1000."""
    rng = np.random.default_rng(seed)
    without = rng.normal(-(SPREAD**2) / 2, SPREAD, size=SETTINGS.num_texts)
    other = rng.normal(-(SPREAD**2) / 2, SPREAD, size=SETTINGS.num_texts)
    other[rng.random(SETTINGS.num_texts) < secret_mass] = -math.log(1000)
    return {"without": without, "with": other}


def report(pair):
    pair = {"name": "x", "rounds_joined": None, "other_differences": [], **pair}
    result = {
        "num_texts": SETTINGS.num_texts,
        "num_words": SETTINGS.num_words,
        "delta": SETTINGS.delta,
        "epsilon": SETTINGS.epsilon,
        "pairs": [pair],
        "worst": tail_audit.worst([pair]),
        "formal": None,
        "full": "full",
    }
    json.dumps(result, allow_nan=False)
    return tail_report.table(result)


def test_a_planted_secret_is_refuted_not_estimated_away():
    """Probability 1e-3 with the person, 1e-6 without: the audit printed epsilon 0.18; it is 6.9."""
    pair = both_directions(ratios(1, secret_mass=1e-3), SETTINGS)
    assert pair["outcome"] == "refuted"
    assert 6.0 < pair["epsilon_direct"] < math.log(1000)
    facts = pair["directions"]["without"]
    assert facts["epsilon"] >= facts["epsilon_direct"]
    assert facts["smallest_log_ratio_direct"] == -math.log(1000)
    assert facts["refutation"]["delta_direct_low"] > facts["refutation"]["delta_tail"]
    text = report(pair)
    assert "x, without: REFUTED" in text
    assert "there is no estimate, only a bound: epsilon is at least 6." in text


def test_ordinary_texts_are_estimated_as_before():
    pair = both_directions(ratios(2), SETTINGS)
    assert pair["outcome"] == "estimate"
    assert pair["epsilon_direct"] <= pair["epsilon"] < 0.5
    assert all(facts["refutation"] is None for facts in pair["directions"].values())
    assert "REFUTED" not in report(pair)


def test_no_difference_one_way_only_is_refuted():
    pair = both_directions(
        {"without": np.zeros(SETTINGS.num_texts), "with": ratios(3, secret_mass=1e-2)["with"]},
        SETTINGS,
    )
    assert pair["directions"]["without"]["outcome"] == "refuted"
    assert pair["outcome"] == "refuted"
    assert "denies any difference" in report(pair)


def test_equal_models_show_no_difference():
    zeros = np.zeros(SETTINGS.num_texts)
    pair = both_directions({"without": zeros, "with": zeros}, SETTINGS)
    assert pair["outcome"] == "no difference"
    assert pair["epsilon"] == pair["epsilon_direct"] == 0.0
