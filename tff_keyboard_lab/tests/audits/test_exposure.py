"""Exposure: ranks against NumPy, and its distribution for phrases that were not planted."""

import math

import numpy as np
import pytest

from tff_keyboard_lab.audits.exposure import exposure, random_phrases


def test_exposure_is_the_rank_in_bits():
    rng = np.random.default_rng(0)
    random = rng.normal(size=1023)
    for phrase in (-3.0, 0.0, 2.0):
        rank = 1 + np.sum(random >= phrase)
        actual = exposure(phrase, random, words=4)
        assert actual.bits == pytest.approx(math.log2(1024) - math.log2(rank))
        assert not actual.is_bound
        assert actual.nats_per_word == -phrase / 4


def test_a_phrase_above_all_others_has_the_bound():
    actual = exposure(1.0, np.zeros(1023), words=3)
    assert (actual.bits, actual.is_bound) == (10.0, True)


def test_a_phrase_of_no_training_has_few_bits():
    """Means of ranks: 1 / ln 2 = 1.44 bits; b bits or more with chance 2^-b."""
    rng = np.random.default_rng(1)
    bits = [exposure(rng.normal(), rng.normal(size=500), words=3).bits for _ in range(4000)]
    assert np.mean(bits) == pytest.approx(1.44, abs=0.1)
    assert np.mean(np.array(bits) >= 5) == pytest.approx(2**-5, abs=0.01)


def test_random_phrases_are_words_and_repeat_with_the_seed():
    one = random_phrases(500, 4, 20, seed=3)
    assert one.shape == (500, 4)
    assert one.min() == 4
    assert one.max() == 19
    np.testing.assert_array_equal(one, random_phrases(500, 4, 20, seed=3))
    assert not np.array_equal(one, random_phrases(500, 4, 20, seed=4))
