"""Colluding attackers: each formula against NumPy, and what makes it an attack."""

import numpy as np
import pytest
from scipy import stats

from tff_keyboard.learning import collusion
from tff_keyboard.learning.collusion import SENT, View, sent_by_attackers, squared_distances

RNG = np.random.default_rng(0)
VIEW = View(
    honest=RNG.normal(0.3, 1.0, (16, 40)),
    own=RNG.normal(0.3, 1.0, (4, 40)),
    last=RNG.normal(size=40),
)
MEAN, SPREAD = VIEW.honest.mean(0), VIEW.honest.std(0)


@pytest.mark.parametrize("attack", SENT)
def test_every_attack_sends_one_finite_delta_an_attacker(attack):
    sent = sent_by_attackers(attack, VIEW)
    assert sent.shape == VIEW.own.shape
    assert np.all(np.isfinite(sent))


def test_alie_hides_where_a_majority_lets_it():
    """Baruch et al. 2019, section 3.2: 2 supporters are missing of 50 workers with 24 corrupted."""
    supporters = 50 // 2 + 1 - 24
    assert collusion.alie_z(50, 24) == pytest.approx(stats.norm.ppf((50 - 24 - supporters) / 26))
    sent = sent_by_attackers("alie", VIEW)
    np.testing.assert_allclose(sent, np.tile(MEAN - collusion.alie_z(20, 4) * SPREAD, (4, 1)))


def test_ipm_turns_the_mean_around_at_an_honest_length():
    sent = sent_by_attackers("ipm", VIEW)[0]
    assert sent @ MEAN < 0
    cosine = sent @ MEAN / np.linalg.norm(sent) / np.linalg.norm(MEAN)
    assert cosine == pytest.approx(-1)
    assert np.linalg.norm(sent) == pytest.approx(np.median(np.linalg.norm(VIEW.honest, axis=1)))


def test_min_max_is_as_far_as_two_honest_clients_are_apart():
    sent = sent_by_attackers("min_max", VIEW)[0]
    farthest = max(np.linalg.norm(a - b) for a in VIEW.honest for b in VIEW.honest)
    reached = np.max(np.linalg.norm(VIEW.honest - sent, axis=1))
    assert reached == pytest.approx(farthest, rel=1e-6)
    assert np.all((sent - MEAN) * SPREAD <= 1e-12)


def test_a_backdoor_replaces_the_model_within_the_honest_lengths():
    longest = np.linalg.norm(VIEW.honest, axis=1).max()
    sent = sent_by_attackers("backdoor", VIEW)
    np.testing.assert_allclose(np.linalg.norm(sent, axis=1), longest)  # 20 / 4 times is longer
    small = View(VIEW.honest, VIEW.own * 1e-3, VIEW.last)
    np.testing.assert_allclose(sent_by_attackers("backdoor", small), 5 * small.own)


def test_a_quiet_backdoor_stays_within_the_honest_quartiles():
    sent = sent_by_attackers("quiet_backdoor", VIEW)
    low, high = np.percentile(VIEW.honest, [25, 75], axis=0)
    wanted = sent_by_attackers("backdoor", VIEW).mean(axis=0)
    np.testing.assert_allclose(sent, np.tile(np.minimum(np.maximum(wanted, low), high), (4, 1)))


def test_simple_attacks():
    np.testing.assert_array_equal(sent_by_attackers("sign_flip", VIEW), -VIEW.own)
    np.testing.assert_array_equal(sent_by_attackers("boost", VIEW), -100 * VIEW.own)
    np.testing.assert_array_equal(sent_by_attackers("free_ride", VIEW)[2], VIEW.last)


def test_squared_distances():
    expected = [[np.sum((a - b) ** 2) for b in VIEW.own] for a in VIEW.honest]
    np.testing.assert_allclose(squared_distances(VIEW.honest, VIEW.own), expected)


def test_unknown_attacks_and_nobody_honest_are_refused():
    with pytest.raises(ValueError, match="`attack` must be one of sign_flip"):
        sent_by_attackers("nonsense", VIEW)
    with pytest.raises(ValueError, match=r"`view.honest` is empty"):
        sent_by_attackers("alie", View(VIEW.honest[:0], VIEW.own, VIEW.last))
