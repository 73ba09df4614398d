"""The private vocabulary: threshold and sensitivity against the formulas, and the chosen words."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.support.examples import examples
from tff_keyboard.privacy.accounting import accounting
from tff_keyboard.privacy.accounting.private_vocabulary import (
    BoundedCounts,
    VocabularyMechanism,
    fresh_normal,
    plan_vocabulary,
    threshold_of,
)


def mechanism(**changes):
    facts = {"sigma": 1.0, "threshold": 6.0, "max_words": 10, "delta_of_words": 1e-6}
    return VocabularyMechanism(**facts | changes)


def zipf_people(people, words, seed, *, vocabulary=20_000):
    """Returns each client's words, from a Zipf law with exponent 1.05."""
    weights = 1 / np.arange(1, vocabulary + 1) ** 1.05
    rng = np.random.default_rng(seed)
    drawn = rng.choice(vocabulary, size=(people, words), p=weights / weights.sum())
    return [[f"w{i}" for i in row] for row in drawn]


@pytest.mark.parametrize("sigma, most, delta", [(1.0, 1, 1e-6), (3.0, 50, 1e-8), (0.5, 7, 1e-4)])
def test_word_of_one_user_passes_with_probability_at_most_delta(sigma, most, delta):
    threshold = threshold_of(sigma, max_words=most, delta_of_words=delta)
    chances = []
    for k in range(1, most + 1):  # exact probability that one of k words passes
        each = stats.norm.sf((threshold - 1 / math.sqrt(k)) / sigma)
        chances.append(-math.expm1(k * math.log1p(-each)))
    assert max(chances) == pytest.approx(delta, rel=1e-6)


def test_word_of_one_user_passes_with_the_formulas_probability():
    delta = 0.02
    threshold = threshold_of(1.5, max_words=4, delta_of_words=delta)
    numbers = mechanism(sigma=1.5, threshold=threshold, max_words=4, delta_of_words=delta)
    rng = np.random.default_rng(0)
    counts = BoundedCounts(4)
    counts.add_client(["a"])
    one = np.mean([bool(counts.released(numbers, rng.standard_normal)) for _ in range(20_000)])
    assert one <= delta + 4 * math.sqrt(delta / 20_000)
    counts = BoundedCounts(4)
    counts.add_client("abcd")
    four = np.mean([bool(counts.released(numbers, rng.standard_normal)) for _ in range(20_000)])
    assert four <= delta + 4 * math.sqrt(delta / 20_000)
    assert max(one, four) > delta / 2  # the threshold is not higher than necessary


words_of_people = st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1), max_size=6)


@examples(100)
@given(others=words_of_people, one=st.lists(st.sampled_from("abcdefgh"), min_size=1))
def test_one_user_changes_the_weights_by_norm_one(others, one):
    with_one, without = BoundedCounts(3), BoundedCounts(3)
    for words in others:
        with_one.add_client(words)
        without.add_client(words)
    with_one.add_client(one)
    moved = [with_one.weights[w] - without.weights.get(w, 0.0) for w in with_one.weights]
    assert np.linalg.norm(moved) == pytest.approx(1.0)


@examples(30)
@given(seed=st.integers(0, 10_000))
def test_word_of_one_user_is_never_in_a_vocabulary(seed):
    """Except with probability delta, here 5e-9 per vocabulary."""
    people = zipf_people(200, 40, seed)
    people[3] += ["a_secret", "another_secret"] * 50
    numbers = plan_vocabulary(epsilon=4.0, delta=1e-8, max_words=30)
    counts = BoundedCounts(30)
    for words in people:
        counts.add_client(words)
    released = counts.released(numbers, np.random.default_rng(seed).standard_normal)
    assert not {"a_secret", "another_secret"} & released.keys()
    typists = {w: sum(w in set(words) for words in people) for w in released}
    assert all(count > 1 for count in typists.values())
    assert "w0" in released


def test_mechanism_has_the_requested_epsilon():
    numbers = plan_vocabulary(epsilon=2.0, delta=1e-8, max_words=100)
    found = accounting.epsilon_of_zcdp(numbers.rho, 5e-9, method="exact Gaussian")
    assert 1.99 < found <= 2.0
    assert numbers.delta_of_words == 5e-9


def test_more_epsilon_keeps_more_of_the_frequent_words():
    people = zipf_people(1500, 100, 0)
    counts = BoundedCounts(60)
    for words in people:
        counts.add_client(words)
    true = [w for w, _ in sorted(counts.weights.items(), key=lambda x: -x[1])][:200]
    recall = []
    for epsilon in (0.25, 1.0, 8.0):
        numbers = plan_vocabulary(epsilon=epsilon, delta=1e-8, max_words=60)
        released = counts.released(numbers, np.random.default_rng(1).standard_normal)
        best = sorted(released, key=released.get, reverse=True)[:200]
        recall.append(len(set(best) & set(true)) / 200)
    assert recall[0] < recall[1] < recall[2]
    assert recall[2] > 0.85


def test_fresh_noise_is_normal_and_never_repeats():
    one, other = fresh_normal(50_000), fresh_normal(50_000)
    assert stats.kstest(one, "norm").pvalue > 1e-4
    assert not np.any(one == other)


def test_counts_of_another_bound_are_refused():
    with pytest.raises(ValueError, match="allows 10 words per client, but the counts have 3"):
        BoundedCounts(3).released(mechanism(), np.zeros)
    with pytest.raises(ValueError, match="`max_words` must be >= 1"):
        plan_vocabulary(epsilon=1.0, delta=1e-6, max_words=0)
