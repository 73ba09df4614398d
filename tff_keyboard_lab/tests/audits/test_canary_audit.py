"""A run of canaries through the real aggregator: the stated epsilon holds, and bugs are found."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support.noise_fakes import KEY
from tests.support.truth import canary_audit
from tff_keyboard.algorithms.rounds.noised import NoisedProcess
from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.parts.privacy_mechanism import MECHANISMS
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.mechanisms.noise_streams import keyed_draw
from tff_keyboard.privacy.registry.blt import BltMechanism
from tff_keyboard.training.aggregation import build_aggregator

DIM, ROUNDS, PER_ROUND, CLIP, DELTA = 4000, 6, 40, 0.5, 1e-5
NUM = ROUNDS * PER_ROUND
WEIGHT = tff.to_type(np.float32)
AUDITED = ("gaussian", "blt")  # whose noise is white, after a multiplication with the matrix of BLT


def stated(mechanism, z):
    """Returns the epsilon of a client that takes part once."""
    once = {"rounds": ROUNDS, "delta": DELTA, "min_separation": ROUNDS}
    return mechanism.guarantee(noise_multiplier=z, **once)


def audited(name, z, *, noise_factor=1.0, length=1.0, clip_norm=CLIP):
    """Sends canaries of `length` clip norms through the factory of a config.

    Bugs: `noise_factor` of the noise is added; deltas are clipped to `clip_norm` instead.

    Returns:
      The estimate and the claim.
    """
    privacy = MECHANISMS[name](clip_norm=clip_norm, noise_multiplier=z)
    mechanism = privacy.mechanism(rounds=ROUNDS, min_separation_rounds=ROUNDS)
    config = AggregationConfig(privacy=privacy, client_weighting="uniform")
    value_type = tff.to_type([tff.TensorType(np.float32, [DIM])])
    process = build_aggregator(config, clients_per_round=PER_ROUND, seed=0).create(
        value_type, WEIGHT
    )
    draw = keyed_draw(KEY)
    scale = noise_factor * CLIP / clip_norm
    noised = NoisedProcess(
        process, lambda size: mechanism.noise(lambda label, n: scale * draw(label, n), size)
    )
    rounds = np.repeat(np.arange(ROUNDS), PER_ROUND)
    sent = np.stack([canary_audit.direction(1, k, DIM) for k in range(NUM)])
    never = np.stack([canary_audit.direction(2, k, DIM) for k in range(NUM)])
    state, sums = noised.initialize(), []
    for t in range(ROUNDS):
        deltas = [[(length * CLIP * c).astype(np.float32)] for c in sent[rounds == t]]
        output = noised.next(state, deltas, [np.float32(1)] * PER_ROUND)
        state = output.state
        sums.append(np.asarray(output.result[0], np.float64) * PER_ROUND)
    column = mechanism.matrix().column(ROUNDS) if isinstance(mechanism, BltMechanism) else None
    arguments = {"clip_norm": CLIP, "column": column}
    actual = canary_audit.estimate(
        canary_audit.statistics(np.stack(sums), rounds, sent, **arguments),
        canary_audit.statistics(np.stack(sums), rounds, never, **arguments),
        delta=DELTA,
    )
    return actual, stated(mechanism, z).epsilon if z else 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITED)
@pytest.mark.parametrize("z", [0.5, 1.0, 4.0])
def test_the_lower_bound_is_below_what_is_stated(name, z):
    actual, claim = audited(name, z, length=3.0)  # canaries that clipping must shorten
    assert actual.epsilon_low <= claim
    assert actual.epsilon >= 0.5 * claim  # and the audit has power


@pytest.mark.slow
def test_without_noise_it_is_far_above():
    actual, _ = audited("gaussian", 0.0)
    assert actual.epsilon_low > 50


@pytest.mark.slow
@pytest.mark.parametrize("name", AUDITED)
@pytest.mark.parametrize(
    "bug",
    [{"noise_factor": 0.5}, {"length": 3.0, "clip_norm": 100 * CLIP}],
    ids=["half the noise", "no clipping"],
)
def test_a_bug_is_caught(name, bug):
    actual, claim = audited(name, 1.0, **bug)
    assert actual.epsilon_low > claim


@pytest.mark.slow
def test_an_estimate_of_known_normals():
    rng = np.random.default_rng(0)
    true = accounting.epsilon_of_zcdp(0.5, DELTA, method="exact Gaussian")
    lows = []
    for _ in range(300):
        inside, outside = 1 + rng.normal(size=400), rng.normal(size=400)
        actual = canary_audit.estimate(inside, outside, delta=DELTA)
        assert actual.epsilon_low < actual.epsilon
        lows.append(actual.epsilon_low)
    assert 0.9 < np.mean(np.array(lows) <= true) <= 0.985  # a 95 % bound covers 95 %
    same = canary_audit.estimate(np.zeros(3), np.zeros(3) - 1.0, delta=DELTA)
    assert same.epsilon_low == np.inf
