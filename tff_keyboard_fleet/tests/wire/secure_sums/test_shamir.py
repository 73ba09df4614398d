"""Shares: any `threshold` of them recover the secret, fewer reveal nothing."""

import itertools
import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.examples import examples
from tff_keyboard_fleet.wire.secure_sums import neighbours, shamir
from tff_keyboard_fleet.wire.secure_sums.neighbours import (
    circle,
    curious_exposure,
    failure,
    min_honest_in_sum,
)


def test_the_modulus_is_prime():
    assert all(pow(base, shamir.PRIME - 1, shamir.PRIME) == 1 for base in (2, 3, 5, 7))
    residue = 4  # Lucas and Lehmer's test, which is a proof for 2^p - 1
    for _ in range(521 - 2):
        residue = (residue * residue - 2) % shamir.PRIME
    assert residue == 0


@examples(50)
@given(threshold=st.integers(1, 6), more=st.integers(0, 4), data=st.data())
def test_any_threshold_of_shares_give_the_secret(threshold, more, data):
    secret = data.draw(st.binary(min_size=32, max_size=32))
    points = data.draw(
        st.lists(
            st.integers(1, 10**6), min_size=threshold + more, max_size=threshold + more, unique=True
        )
    )
    split = shamir.split(secret, threshold=threshold, points=points)
    shares = dict(zip(points, split, strict=True))
    chosen = data.draw(st.permutations(points))[: data.draw(st.integers(threshold, len(points)))]
    assert shamir.join({x: shares[x] for x in chosen}) == secret


def test_fewer_are_of_no_secret_and_uniform():
    """One share less fits every secret, so it reveals nothing."""
    secret = bytes(32)
    rounds = [shamir.split(secret, threshold=3, points=[1, 2, 3]) for _ in range(300)]
    assert all(shamir.join(dict(enumerate(shares[:2], 1))) is None for shares in rounds)
    lowest = np.array([share[-1] for shares in rounds for share in shares[:2]])
    assert stats.chisquare(np.bincount(lowest % 16, minlength=16)).pvalue > 1e-6


def test_another_share_gives_no_secret():
    secret = secrets.token_bytes(32)
    shares = dict(enumerate(shamir.split(secret, threshold=2, points=[1, 2, 3]), 1))
    shares[2] = b"\0" + secrets.token_bytes(65)
    for pair in itertools.combinations([1, 2, 3], 2):
        actual = shamir.join({x: shares[x] for x in pair})
        assert actual == (secret if 2 not in pair else None)


@pytest.mark.parametrize(
    "secret, threshold, points",
    [(bytes(31), 2, [1, 2]), (bytes(32), 3, [1, 2]), (bytes(32), 2, [1, 1])],
)
def test_invalid_secrets_and_points_are_rejected(secret, threshold, points):
    with pytest.raises(ValueError, match="must be 32 bytes"):
        shamir.split(secret, threshold=threshold, points=points)


@pytest.mark.parametrize("count, degree", [(5, 2), (5, 4), (30, 12)])
def test_the_circle_is_symmetric_and_regular(count, degree):
    devices = list(range(count))
    near = circle(devices, degree)
    assert near.keys() == set(devices)
    for device, others in near.items():
        assert len(set(others) - {device}) == degree
        assert all(device in near[other] for other in others)
    draws = {tuple(sorted(circle(list(range(30)), 12)[0])) for _ in range(5)}
    assert len(draws) == 5  # who is near whom is drawn anew


@pytest.mark.parametrize("degree", [3, 0, 10])
def test_a_degree_that_does_not_fit_is_refused(degree):
    with pytest.raises(ValueError, match=f"in 2..9 of 10 devices, got {degree}"):
        circle(list(range(10)), degree)


def test_chances_are_those_of_draws():
    rng = np.random.default_rng(0)
    lost = np.array([rng.permutation(99)[:20] for _ in range(20_000)]) < 30  # neighbours of one
    share = np.mean(lost.sum(axis=1) > 20 - 11)
    bound = failure(100, 20, 11, 30)
    assert bound == 1.0  # of a hundred devices some fails
    np.testing.assert_allclose(failure(100, 60, 31, 30), 5.752e-7, rtol=1e-3)
    np.testing.assert_allclose(neighbours._tail(99, 30, 20, 10), share, atol=0.01)
    colluding = np.array([rng.permutation(99)[:20] for _ in range(20_000)]) < 50
    share = np.mean(colluding.sum(axis=1) >= 14)
    np.testing.assert_allclose(neighbours._tail(99, 50, 20, 14), share, atol=0.01)
    assert curious_exposure(100, 60, 36, 35) == 0.0  # 36 are needed
    assert 0 < curious_exposure(100, 60, 36, 36) < 1e-6


@pytest.mark.parametrize(
    ("degree", "threshold", "colluding", "least"),
    [(56, 30, 0, 31), (56, 30, 3, 28), (56, 30, 4, 1), (6, 4, 1, 4), (6, 4, 2, 1), (2, 2, 2, 1)],
)
def test_a_lying_server_learns_no_sum_of_fewer(degree, threshold, colluding, least):
    assert min_honest_in_sum(degree, threshold, colluding) == least
