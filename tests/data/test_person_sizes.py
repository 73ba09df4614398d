"""What a person brings to a round, told from a data card, is about what people bring."""

import math

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.examples import examples
from tff_keyboard.data.store.person_sizes import PersonSizes
from tff_keyboard.data.store.population_statistics import PopulationStatistics


class Counted:
    oov = oov_by_counts = masks = 0


def of_people(counts):
    statistics = PopulationStatistics(64, is_cut=False, tells_counts=False)
    for count in counts:
        statistics.add_client([3] * count, Counted())
    return PersonSizes.of_card(statistics.as_json())


@hypothesis.given(
    counts=st.lists(st.integers(0, 3000), min_size=1, max_size=40).filter(any),
    most=st.sampled_from([1, 8, 64, 100]),
)
@examples(100)
def test_averages_are_about_those_of_the_people(counts, most):
    found, true = of_people(counts), np.array(counts)
    assert found.messages == pytest.approx(true.sum())
    assert found.mean(float) == pytest.approx(true.mean())
    bounded = found.mean(lambda messages: min(messages, most))
    assert bounded == pytest.approx(np.minimum(true, most).mean(), rel=0.5)


@pytest.mark.parametrize("most, expected", [(8, 8.0), (64, 20.0)])
def test_people_who_typed_alike_are_known_exactly(most, expected):
    found = of_people([20, 20, 20])
    assert found.mean(lambda messages: min(messages, most), most) == pytest.approx(expected)


def test_who_typed_more_checks_in_more_often():
    counts = np.array([1] * 90 + [2000] * 10)
    found = of_people(counts)
    visits = np.ceil(counts / 8)
    true = (visits * np.minimum(counts, 8)).sum() / visits.sum()
    assert found.mean(lambda messages: min(messages, 8), 8) == pytest.approx(true, rel=0.02)
    assert found.mean(lambda messages: min(messages, 8), math.inf) == pytest.approx(1.7, rel=0.25)


def test_nobody_brings_nothing():
    assert PersonSizes(()).mean(float) == 0.0
