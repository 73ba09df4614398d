"""Conclusions of the audit from samples whose truth is known: a secret, no difference, normal
texts.
"""

import dataclasses
import json
import math

import numpy as np
import pytest

from tff_keyboard_lab.audits import direct_bounds, tail_report
from tff_keyboard_lab.audits.tail_audit import Settings, both_directions

SETTINGS = Settings(num_texts=10_000, num_words=10, delta=1e-3, epsilon=1.0, seed=1)
RARE = dataclasses.replace(SETTINGS, delta=1e-5)
SPREAD = 0.05


def ratios(seed, secret_mass=0.0):
    """Returns ln c of texts of each model; -ln 1000 for `secret_mass` of those "with"."""
    rng = np.random.default_rng(seed)
    without = rng.normal(-(SPREAD**2) / 2, SPREAD, size=SETTINGS.num_texts)
    other = rng.normal(-(SPREAD**2) / 2, SPREAD, size=SETTINGS.num_texts)
    other[rng.random(SETTINGS.num_texts) < secret_mass] = -math.log(1000)
    return {"without": without, "with": other}


def report(pair, settings=SETTINGS):
    pair = dataclasses.replace(pair, name="x")
    result = tail_report.TailAudit(settings=settings, full="full", formal=None, pairs=[pair])
    assert json.loads(result.to_json())["worst"]["outcome"] == pair.outcome
    return tail_report.table(result)


def test_a_planted_secret_is_refuted_not_estimated_away():
    """Probability 1e-3 with the client, 1e-6 without: the tail alone gives 0.18, not 6.9."""
    pair = both_directions(ratios(1, secret_mass=1e-3), RARE)
    assert pair.outcome == "refuted"
    assert 6.0 < pair.epsilon_direct < math.log(1000)
    facts = pair.directions["without"]
    assert facts.epsilon >= facts.epsilon_direct
    assert facts.smallest_log_ratio_direct == -math.log(1000)
    assert facts.refutation.delta_direct_low > facts.refutation.delta_tail
    text = report(pair, RARE)
    assert "x, without: REFUTED" in text
    assert "there is no estimate, only a bound: epsilon is at least 6." in text


def test_ordinary_texts_are_estimated_as_before():
    pair = both_directions(ratios(2), SETTINGS)
    assert pair.outcome == "estimate"
    assert pair.epsilon_direct <= pair.epsilon < 0.5
    assert all(facts.refutation is None for facts in pair.directions.values())
    text = report(pair)
    assert "REFUTED" not in text
    assert "Detection limit: a phrase of probability below 3.0e-04 may be in none" in text
    assert "probability below 3.0e-04." in text


def test_a_secret_that_was_never_drawn_is_not_estimated_away():
    """1e-4 with the client, 1e-7 without: the tail alone gives 0.18 at delta 1e-5; the truth is
    6.80.
    """
    rng = np.random.default_rng([1, 1000])
    texts = rng.normal(-(SPREAD**2) / 2, SPREAD, size=10_000)
    others = -rng.normal(SPREAD**2 / 2, SPREAD, size=10_000)
    assert not (rng.random(10_000) < 1e-4).any()  # the secret
    pair = both_directions({"without": texts, "with": others}, RARE)
    assert pair.outcome == "not established"
    assert pair.epsilon is None
    assert pair.epsilon_conservative is None
    text = report(pair, RARE)
    assert "NOT ESTABLISHED: delta 1e-05 is below the detection limit of 10,000 texts" in text
    assert "--texts=299572" in text
    assert "estimated: epsilon" not in text


@pytest.mark.parametrize("num_texts", [100, 2_000, 10_000])
def test_the_detection_limit_is_what_a_sample_shows_with_95_percent(num_texts):
    limit = direct_bounds.detection_limit(num_texts)
    assert (1 - limit) ** num_texts == pytest.approx(0.05)
    assert limit == pytest.approx(3 / num_texts, rel=0.02)
    for delta in (limit, 0.9 * limit, 1e-7):
        texts = direct_bounds.texts_needed(delta)
        assert direct_bounds.detection_limit(texts) <= delta * (1 + 1e-9)
        assert direct_bounds.detection_limit(texts - 1) > delta * (1 - 1e-9)


def test_drawn_secret_is_refuted_at_any_delta_above_the_limit():
    """One text is enough to refute, so the limit is the probability of being drawn at all."""
    pair_of = ratios(4)
    pair_of["with"][0] = -math.log(1000)
    limit = Settings(delta=SETTINGS.detection_limit)
    assert both_directions(ratios(4), limit).outcome == "estimate"
    assert both_directions(pair_of, limit).outcome == "refuted"


def test_no_difference_one_way_only_is_refuted():
    pair = both_directions(
        {"without": np.zeros(SETTINGS.num_texts), "with": ratios(3, secret_mass=1e-2)["with"]},
        SETTINGS,
    )
    assert pair.directions["without"].outcome == "refuted"
    assert pair.outcome == "refuted"
    assert "denies any difference" in report(pair)


def test_equal_texts_say_nothing_below_the_detection_limit():
    """The tail alone gives epsilon 0.0000 at delta 1e-5, for phrases that no text could show."""
    zeros = np.zeros(10_000)
    pair = both_directions({"without": zeros, "with": zeros}, RARE)
    assert pair.outcome == "not established"
    for facts in (pair, *pair.directions.values()):
        assert facts.outcome == "not established"
        assert facts.epsilon is facts.epsilon_conservative is None
    text = report(pair, RARE)
    assert "NOT ESTABLISHED: delta 1e-05 is below the detection limit of 10,000 texts" in text
    assert "every ratio is exactly 1; epsilon not established" in text
    assert "0.0000" not in text


def test_one_direction_alone_may_show_no_difference_below_the_limit():
    pair = both_directions({"without": np.zeros(10_000), "with": ratios(3)["with"]}, RARE)
    assert pair.directions["without"].outcome in ("not established", "refuted")
    assert pair.epsilon is None


def test_equal_models_show_no_difference():
    zeros = np.zeros(SETTINGS.num_texts)
    pair = both_directions({"without": zeros, "with": zeros}, SETTINGS)
    assert pair.outcome == "no difference"
    assert pair.epsilon == pair.epsilon_direct == 0.0
