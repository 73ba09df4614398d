"""Estimates of a client's messages from a data card agree with the actual messages."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard.algorithms.cohorts import CohortSampler
from tff_keyboard.config.sections.train_config import TrainConfig
from tff_keyboard.data.preparing.population_statistics import PopulationStatistics
from tff_keyboard.data.store.client_sizes import ClientSizes, text_weights


class Counted:
    oov = oov_by_counts = masks = 0


def of_people(counts):
    statistics = PopulationStatistics(64, is_cut=False, tells_counts=False)
    for count in counts:
        statistics.add_client([3] * count, Counted())
    return ClientSizes.of_card(statistics.as_json())


@hypothesis.given(
    counts=st.lists(st.integers(0, 3000), min_size=1, max_size=40).filter(any),
    most=st.sampled_from([1, 8, 64, 100]),
)
@examples(100)
def test_means_approximate_the_clients_means(counts, most):
    actual, true = of_people(counts), np.array(counts)
    assert actual.messages == pytest.approx(true.sum())
    assert actual.mean(float) == pytest.approx(true.mean())
    bounded = actual.mean(lambda messages: min(messages, most))
    assert bounded == pytest.approx(np.minimum(true, most).mean(), rel=0.5)


@pytest.mark.parametrize("most, expected", [(8, 8.0), (64, 20.0)])
def test_exact_for_clients_with_equal_sizes(most, expected):
    actual = of_people([20, 20, 20])
    assert actual.mean(lambda messages: min(messages, most), most) == pytest.approx(expected)


def test_clients_with_more_text_check_in_more_often():
    counts = np.array([1] * 90 + [2000] * 10)
    actual = of_people(counts)
    visits = np.ceil(counts / 8)
    true = (visits * np.minimum(counts, 8)).sum() / visits.sum()
    assert actual.mean(lambda messages: min(messages, 8), 8) == pytest.approx(true, rel=0.02)
    assert actual.mean(lambda messages: min(messages, 8), math.inf) == pytest.approx(1.7, rel=0.25)


def bounded(rounds, factor):
    """Solves c = factor * mean(min(rounds, c)) by bisection."""
    low, high = 1.0, max(rounds)
    for _ in range(100):
        c = (low + high) / 2
        low, high = (c, high) if c <= factor * np.minimum(rounds, c).mean() else (low, c)
    return np.minimum(rounds, high)


SOME_MESSAGES = st.lists(st.integers(0, 10**6), min_size=1, max_size=30).map(np.array)


@hypothesis.given(
    messages=SOME_MESSAGES, of_round=st.integers(1, 20), factor=st.sampled_from([1.0, 1.5, 5.0])
)
@examples(100)
def test_bound_matches_bisection(messages, of_round, factor):
    rounds = np.maximum(np.ceil(messages / of_round), 1)
    actual = text_weights(messages, of_round, factor)
    np.testing.assert_allclose(actual, bounded(rounds, factor), rtol=1e-9)
    np.testing.assert_array_equal(text_weights(messages, of_round), rounds)
    assert actual.max() <= factor * actual.mean() * (1 + 1e-12)
    if factor == 1:  # all equal
        np.testing.assert_array_equal(actual, actual[0])


@pytest.mark.parametrize("claim", [5.28e17, 1.04281684e18, 2.25e15])
def test_equal_claims_of_any_size_are_not_cut(claim):
    """Their rounded mean may be less than each of them."""
    for people in (1, 5, 9_320):
        np.testing.assert_allclose(text_weights(np.full(people, claim), 8, 1.0), claim / 8)


@hypothesis.given(
    messages=SOME_MESSAGES,
    liars=st.integers(1, 20),
    claim=st.sampled_from([1.0, 1e3, 1e12]),
    factor=st.sampled_from([1.0, 3.0, 10.0]),
)
@examples(100)
def test_share_of_false_claims_is_bounded(messages, liars, claim, factor):
    everybody = np.append(messages, np.full(liars, claim))
    actual = text_weights(everybody, 8, factor)
    share = liars / len(everybody)
    assert actual[len(messages) :].sum() <= share * factor * actual.sum() * (1 + 1e-12)


@hypothesis.given(messages=SOME_MESSAGES, factor=st.sampled_from([0.0, 1.0, 5.0]))
@examples(50)
def test_groups_equal_single_clients(messages, factor):
    groups, people = np.unique(messages, return_counts=True)
    actual = np.repeat(text_weights(groups, 8, factor, people), people)
    np.testing.assert_allclose(actual, text_weights(np.sort(messages), 8, factor))
    assert not len(text_weights(np.array([]), 8, factor))


def test_expected_messages_match_drawn_cohorts():
    counts = np.concatenate([np.tile(np.arange(1, 9), 100), np.full(8, 5793)])
    weights = text_weights(counts, 8, 5.0)
    assert weights.max() < text_weights(counts, 8).max() / 50
    sampler = CohortSampler(TrainConfig(clients_per_round=16, seed=1), len(counts), weights=weights)
    drawn = np.concatenate([sampler.cohort(t).selected for t in range(400)])
    people = of_people(counts)
    actual = people.mean(lambda messages: min(messages, 8), 8, 5.0)
    assert actual == pytest.approx(counts[drawn].clip(max=8).mean(), rel=0.1)
    without = people.mean(lambda messages: min(messages, 8), 8)
    assert without > 1.4 * actual


def test_empty_population():
    assert ClientSizes(()).mean(float) == 0.0
