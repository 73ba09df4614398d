"""The discrete Gaussian: its distribution, and its Renyi divergence."""

import math

import numpy as np
import pytest
from scipy import stats

from tff_keyboard.privacy.mechanisms.discrete_normal import BITS, keyed_discrete_normal

KEY = bytes(range(32))


def probabilities(scale, reach):
    """Returns P(k) for |k| <= reach, float64."""
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k**2) / (2 * scale**2))
    return k, weights / weights.sum()


@pytest.mark.parametrize("bits", [0, 1, 3])
def test_distribution_matches_the_formula(bits):
    scale = 1 << bits
    size = 400_000
    draws = keyed_discrete_normal(KEY, "law", size, bits=bits) * scale
    k, p = probabilities(scale, 12 * scale)
    counts = np.array([np.sum(draws == value) for value in k])
    assert counts.sum() == size
    rare = p * size < 20  # joined to one cell, because chi-squared needs some counts
    observed = [*counts[~rare], counts[rare].sum()]
    expected = [*(p[~rare] * size), p[rare].sum() * size]
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_normal_and_whole_numbers_on_the_used_grid():
    draws = keyed_discrete_normal(KEY, "law", 300_000)
    assert np.array_equal(draws * 2**BITS, np.round(draws * 2**BITS))
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    assert np.abs(draws).max() > 4.2


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_pure_function_of_key_label_and_size(size):
    one = keyed_discrete_normal(KEY, "a", size)
    assert one.shape == (size,)
    np.testing.assert_array_equal(one, keyed_discrete_normal(KEY, "a", size))
    if size > 1:
        assert np.abs(np.corrcoef(one, keyed_discrete_normal(KEY, "b", size))[0, 1]) < 0.15


@pytest.mark.parametrize("scale, shift, order", [(1, 1, 2.5), (2, 3, 2), (8, 5, 10), (8, 1, 64)])
def test_renyi_divergence_is_at_most_the_continuous_one(scale, shift, order):
    """Canonne et al. 2020, Proposition 5: at most that of the continuous Gaussian."""
    reach = int(40 * scale + 2 * order * shift)
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    log_p, log_q = -(k**2) / (2 * scale**2), -((k - shift) ** 2) / (2 * scale**2)
    terms = order * log_p + (1 - order) * log_q
    total = terms.max() + math.log(np.sum(np.exp(terms - terms.max())))
    divergence = (total - math.log(np.sum(np.exp(log_p)))) / (order - 1)
    bound = order * shift**2 / (2 * scale**2)
    assert divergence <= bound * (1 + 1e-12)
    if scale == 8:
        assert divergence == pytest.approx(bound, rel=1e-9)


def test_a_scale_out_of_range_is_refused():
    with pytest.raises(ValueError, match=r"`bits` must be in 0..30, got 31"):
        keyed_discrete_normal(KEY, "a", 1, bits=31)
