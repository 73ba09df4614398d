"""People needed: by the formula, by simulation, and what is refused."""

import math

import numpy as np
import pytest

from tff_keyboard.evaluation.statistics import power
from tff_keyboard.evaluation.statistics.power import Design

METRIC = "recall_at_1_no_eos"


def sums(people, rate, rng, words=50):
    tokens = np.full(people, float(words))
    zero = np.zeros(people)
    return {
        **{"tokens": tokens, "eos_tokens": zero, "hits_at_1": rng.binomial(words, rate, people)},
        **{"nll": rng.normal(5, 1, people) * words},
    }


def test_twice_the_lift_needs_a_quarter_of_the_people():
    rng = np.random.default_rng(0)
    first, second = sums(4000, 0.2, rng), sums(4000, 0.2, rng)
    small, large = (power.of_replay(first, second, METRIC, d, Design()) for d in (0.001, 0.002))
    assert small.needed == pytest.approx(4 * large.needed, rel=1e-3)
    again = power.of_replay(first, second, METRIC, small.least_lift, Design())
    assert again.needed == pytest.approx(4000, abs=1)


def test_the_people_needed_see_the_lift_as_often_as_promised():
    rng = np.random.default_rng(1)
    lift = 0.02
    pilot = sums(3000, rng.beta(20, 80, 3000), rng)
    need = power.of_experiment(pilot, METRIC, lift, Design(power=0.8))
    seen = 0
    for _ in range(600):
        means = []
        errors = 0.0
        for extra in (0.0, lift):
            rates = rng.beta(20, 80, need.needed) + extra
            shares = rng.binomial(50, rates) / 50
            means.append(shares.mean())
            errors += shares.var(ddof=1) / need.needed
        seen += (means[1] - means[0]) / math.sqrt(errors) > 1.96
    assert seen / 600 == pytest.approx(0.8, abs=0.06)


def test_looks_and_more_metrics_need_more_people():
    rng = np.random.default_rng(2)
    text = sums(500, 0.2, rng)
    designs = [Design(), Design(looks=5), Design(metrics=3), Design(power=0.95)]
    needed = [power.of_experiment(text, METRIC, 0.01, design).needed for design in designs]
    assert needed[0] < min(needed[1:])


def test_perplexity_is_a_factor():
    rng = np.random.default_rng(3)
    text = sums(500, 0.2, rng)
    need = power.of_experiment(text, "perplexity", 0.95, Design())
    assert need.lift == pytest.approx(-math.log(0.95))
    assert need.standard_error == pytest.approx(1 / math.sqrt(500), rel=0.1)  # of 1 nat a person


@pytest.mark.parametrize("metric, lift", [(METRIC, 0.0), ("perplexity", 1.2), (METRIC, math.nan)])
def test_rejects_what_is_no_lift(metric, lift):
    with pytest.raises(ValueError, match="lift"):
        power.of_experiment(sums(50, 0.2, np.random.default_rng(0)), metric, lift, Design())


def test_rejects_one_person():
    with pytest.raises(ValueError, match="at least two"):
        power.of_experiment(sums(1, 0.2, np.random.default_rng(0)), METRIC, 0.1, Design())
