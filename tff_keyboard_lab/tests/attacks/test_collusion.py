"""Colluding attackers: each formula against NumPy, and its effect."""

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from tff_keyboard_lab.attacks import collusion
from tff_keyboard_lab.attacks.attack_names import COLLUDING

RNG = np.random.default_rng(0)
HONEST = RNG.normal(0.3, 1.0, (16, 40))
OWN = RNG.normal(0.3, 1.0, (4, 40))
MEAN, SPREAD = HONEST.mean(0), HONEST.std(0)
LONGEST = np.linalg.norm(HONEST, axis=1).max()


def stack(rows):
    """Returns deltas of two tensors, [5, 4] and [20]."""
    rows = np.asarray(rows, np.float32)
    return [rows[:, :20].reshape(-1, 5, 4), rows[:, 20:]]


def planned(attack, honest=HONEST, own=OWN):
    structure = [tf.TensorSpec([None, 5, 4]), tf.TensorSpec([None, 20])]
    plan = tf.function(collusion.plan).get_concrete_function(attack, structure, structure)
    return plan(*map(tf.constant, [*stack(honest), *stack(own)]))


def sent(attack, **rows):
    return np.concatenate([np.ravel(x) for x in planned(attack, **rows).delta])


def scaled(delta):
    """Returns the update of one "backdoor" attacker from its own training."""
    plan = planned("backdoor")
    tensors = [tf.constant(x[0]) for x in stack(delta[np.newaxis])]
    found = collusion.scaled(tensors, plan.longest, plan.replace)
    return np.concatenate([np.ravel(x) for x in found])


@pytest.mark.parametrize("clients, attackers", [(20, 4), (50, 24), (20, 1)])
def test_alie_z_by_number_of_clients(clients, attackers):
    """Baruch et al. 2019, section 3.2: with 50 workers, 24 of them corrupted, 2 supporters are
    missing.
    """
    supporters = clients // 2 + 1 - attackers
    honest = clients - attackers
    z = max(stats.norm.ppf((honest - supporters) / honest), 0)
    assert collusion.alie_z(clients, attackers).numpy() == pytest.approx(z, abs=1e-6)


def test_alie_sends_mean_minus_z_deviations():
    z = max(stats.norm.ppf((16 - 7) / 16), 0)
    np.testing.assert_allclose(sent("alie"), MEAN - z * SPREAD, atol=1e-5)


def test_ipm_turns_the_mean_around_at_an_honest_length():
    length = np.median(np.linalg.norm(HONEST, axis=1))
    np.testing.assert_allclose(sent("ipm"), -MEAN * length / np.linalg.norm(MEAN), rtol=1e-5)


def test_min_max_is_as_far_as_two_honest_clients_are_apart():
    farthest = max(np.linalg.norm(a - b) for a in HONEST for b in HONEST)
    low, high = 0.0, 100.0
    for _ in range(50):
        gamma = (low + high) / 2
        reached = np.max(np.linalg.norm(HONEST - (MEAN - gamma * SPREAD), axis=1))
        low, high = (gamma, high) if reached <= farthest else (low, gamma)
    np.testing.assert_allclose(sent("min_max"), MEAN - low * SPREAD, rtol=1e-4, atol=1e-5)


def test_min_max_of_equal_clients_is_their_delta():
    equal = np.repeat(HONEST[:1], 5, axis=0)
    np.testing.assert_allclose(sent("min_max", honest=equal), HONEST[0], rtol=1e-5)


def test_a_backdoor_replaces_the_model_within_the_honest_lengths():
    long = OWN[0] * LONGEST / np.linalg.norm(OWN[0])  # 20 / 4 times is longer
    np.testing.assert_allclose(scaled(long), long, rtol=1e-5)
    np.testing.assert_allclose(scaled(OWN[1] * 1e-3), 5e-3 * OWN[1], rtol=1e-5)


def test_a_quiet_backdoor_stays_within_the_honest_quartiles():
    low, high = np.percentile(HONEST, [25, 75], axis=0)
    lengths = np.linalg.norm(OWN, axis=1, keepdims=True)
    directions = np.mean(OWN * np.minimum(5, LONGEST / lengths), axis=0)
    np.testing.assert_allclose(
        sent("quiet_backdoor"), np.clip(directions, low, high), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("attack", COLLUDING)
def test_round_without_honest_clients_or_attackers_succeeds(attack):
    assert planned(attack, honest=HONEST[:0]).honest == 0
    assert planned(attack, own=OWN[:0]).honest == 16
