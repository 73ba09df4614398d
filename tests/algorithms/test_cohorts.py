"""Cohorts: sizes, separation, purity, chance."""

import itertools

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.support.examples import examples
from tff_keyboard import config as config_lib
from tff_keyboard.algorithms.cohorts import CohortSampler, sampling_weights, share_of_cohorts
from tff_keyboard.config.sections.train_config import TrainConfig


def sampler_of(num_clients, clients_per_round, seed=0, weights=None, key=b"", **more):
    config = TrainConfig(clients_per_round=clients_per_round, seed=seed, **more)
    return CohortSampler(config, num_clients, weights, key)


@st.composite
def samplers(draw):
    clients_per_round = draw(st.integers(1, 8))
    over_selection = draw(st.sampled_from([1.0, 1.1, 1.3, 2.0]))
    separation = draw(st.integers(1, 5))
    num_selected = int(np.ceil(round(over_selection * clients_per_round, 9)))
    return dict(
        num_clients=num_selected * separation + draw(st.integers(0, 10)),
        clients_per_round=clients_per_round,
        seed=draw(st.integers(0, 2**40)),
        over_selection=over_selection,
        dropout_rate=draw(st.sampled_from([0.0, 0.1, 0.5, 0.9])),
        min_separation_rounds=separation,
    ), num_selected


@hypothesis.given(drawn=samplers(), order=st.permutations(range(12)))
@examples(100)
def test_cohorts(drawn, order):
    arguments, num_selected = drawn
    sampler = sampler_of(**arguments)
    assert sampler.num_selected == num_selected
    out_of_order = sampler_of(**arguments)
    other_order = {t: out_of_order.cohort(t) for t in order}
    last_selected = {}
    for t in range(12):
        cohort = sampler.cohort(t)
        for part in ("selected", "dropped", "reporting"):
            np.testing.assert_array_equal(getattr(cohort, part), getattr(other_order[t], part))
        selected = cohort.selected.tolist()
        assert len(selected) == len(set(selected)) == num_selected
        assert min(selected) >= 0
        assert max(selected) < arguments["num_clients"]
        alive = [client for client in selected if client not in set(cohort.dropped.tolist())]
        assert cohort.reporting.tolist() == alive[: arguments["clients_per_round"]]
        assert len(alive) + len(cohort.dropped) == num_selected
        for client in selected:
            assert t - last_selected.get(client, -100) >= arguments["min_separation_rounds"]
            last_selected[client] = t


def test_changing_a_cohort_changes_nothing():
    sampler = sampler_of(20, 5, seed=1, min_separation_rounds=2)
    expected = sampler.cohort(1).selected.copy()
    sampler.cohort(0).selected[:] = 0
    sampler.cohort(1).selected[:] = 0
    np.testing.assert_array_equal(sampler.cohort(1).selected, expected)


def test_everyone_is_chosen_equally_often():
    sampler = sampler_of(10, 3, seed=5)
    rounds = 3000
    counts = np.bincount(
        np.concatenate([sampler.cohort(t).selected for t in range(rounds)]), minlength=10
    )
    standard_deviation = np.sqrt(rounds * 0.3 * 0.7)
    assert np.abs(counts - rounds * 0.3).max() < 5 * standard_deviation


def test_dropouts_have_the_asked_rate_and_other_chance_than_selection():
    sampler = sampler_of(100, 50, seed=5, over_selection=2.0, dropout_rate=0.2)
    dropped = np.concatenate([sampler.cohort(t).dropped for t in range(200)])
    expected = 200 * 100 * 0.2
    assert abs(len(dropped) - expected) < 5 * np.sqrt(expected * 0.8)
    counts = np.bincount(dropped, minlength=100)  # no client drops out more than others
    assert counts.max() < 40 + 5 * np.sqrt(32) + 5


def test_rounds_differ_and_seeds_differ():
    first = sampler_of(1000, 20, seed=1)
    assert set(first.cohort(0).selected) != set(first.cohort(1).selected)
    assert set(first.cohort(0).selected) != set(sampler_of(1000, 20, seed=2).cohort(0).selected)


def test_a_key_salts_the_cohorts():
    """Who knows the seed drew every cohort of a private run."""

    def cohorts(key, **changes):
        sampler = sampler_of(200, 20, **{"seed": 1, "dropout_rate": 0.5, "key": key} | changes)
        return [tuple(sampler.cohort(t).reporting.tolist()) for t in range(5)]

    keys = [b"", b"a" * 32, b"b" * 32]
    found = [cohorts(key) for key in keys]
    assert len({cohort for each in found for cohort in each}) == 15
    assert cohorts(keys[1]) == found[1]
    assert cohorts(keys[1], seed=2) != found[1]


def test_a_key_keeps_chances_and_separation():
    sampler = sampler_of(12, 3, seed=5, key=b"a" * 32)
    drawn = [sampler.cohort(t).selected for t in range(3000)]
    counts = np.bincount(np.concatenate(drawn), minlength=12)
    assert np.abs(counts - 750).max() < 5 * np.sqrt(3000 * 0.25 * 0.75)
    waiting = sampler_of(12, 3, seed=5, key=b"a" * 32, min_separation_rounds=3)
    rounds = [waiting.cohort(t).selected for t in range(20)]
    for t in range(2, len(rounds)):
        assert len(np.unique(np.concatenate(rounds[t - 2 : t + 1]))) == 9


def test_the_whole_population_with_full_separation_takes_turns():
    sampler = sampler_of(12, 4, seed=3, min_separation_rounds=3)
    for t in range(9):
        three = [sampler.cohort(t + k).selected for k in range(3)]
        assert sorted(np.concatenate(three).tolist()) == list(range(12))


@pytest.mark.parametrize(
    "arguments, says",
    [
        (dict(clients_per_round=11), "needs 11 clients, got 10"),
        (dict(over_selection=1.3, min_separation_rounds=4), "needs 12 clients, got 10.*Lower"),
    ],
)
def test_rejects(arguments, says):
    with pytest.raises(ValueError, match=says):
        sampler_of(**{"num_clients": 10, "clients_per_round": 2, "seed": 0, **arguments})


def test_rejects_a_negative_round():
    with pytest.raises(ValueError, match="`round_num` must be >= 0"):
        sampler_of(10, 2, 0).cohort(-1)


def test_weights_are_the_chances_of_being_drawn():
    weights = np.array([1.0, 1.0, 2.0, 4.0, 8.0])
    sampler = sampler_of(5, 1, seed=3, weights=weights)
    drawn = np.bincount([sampler.cohort(t).selected[0] for t in range(4000)], minlength=5)
    expected = 4000 * weights / weights.sum()
    assert np.all(np.abs(drawn - expected) < 5 * np.sqrt(expected))


def test_waiting_clients_are_not_drawn_for_any_weight():
    weights = np.array([1e9, 1.0, 1.0, 1.0])
    sampler = sampler_of(4, 2, seed=3, min_separation_rounds=2, weights=weights)
    rounds = [set(sampler.cohort(t).selected.tolist()) for t in range(10)]
    assert all(len(each) == 2 for each in rounds)
    assert not any(a & b for a, b in itertools.pairwise(rounds))
    assert 0 in rounds[0]


@pytest.mark.parametrize("weights", [[1.0], [1.0, 0.0], [1.0, -1.0], [1.0, np.nan]])
def test_rejects_weights(weights):
    with pytest.raises(ValueError, match="`weights` must be 2 numbers > 0"):
        sampler_of(2, 1, seed=0, weights=np.array(weights))


def sampled(*lines):
    text = ("[client]", "max_examples = 8", "[train]", "client_sampling = 'proportional'", *lines)
    return config_lib.loads("\n".join(text))


def test_proportional_sampling():
    messages = np.array([0, 1, 8, 9, 16, 800])
    weights = sampling_weights(sampled("max_sampling_ratio = 0.0").train, messages, max_examples=8)
    np.testing.assert_array_equal(weights, [1, 1, 1, 2, 2, 100])
    weights = sampling_weights(sampled("max_sampling_ratio = 2.0").train, messages, max_examples=8)
    np.testing.assert_allclose(weights, [1, 1, 1, 2, 2, 3.5])  # 2 * mean
    assert sampling_weights(config_lib.loads("").train, messages, max_examples=8) is None


@pytest.mark.parametrize(("over_selection", "separation", "size"), [(1.0, 1, 10), (1.3, 2, 13)])
def test_proportional_cohorts_have_whole_sizes(over_selection, separation, size):
    """apple/pfl-research #98: cohorts drawn by weight once had a fraction as their size."""
    config = sampled(
        "clients_per_round = 10",
        f"over_selection = {over_selection}",
        f"min_separation_rounds = {separation}",
    ).train
    messages = np.random.default_rng(0).integers(1, 400, 60)
    sampler = CohortSampler(config, 60, sampling_weights(config, messages, max_examples=8))
    for round_num in range(1, 100):
        chosen = sampler.cohort(round_num).selected
        assert len(chosen) == len(set(chosen.tolist())) == size


@pytest.mark.parametrize("accounts", [3, 30, 150])  # 0.1, 1 and 5 %
def test_claims_of_much_text_do_not_fill_the_cohort(accounts):
    honest = np.random.default_rng(0).geometric(0.1, 3000 - accounts)
    messages = np.append(honest, np.full(accounts, 10**9))

    def seats(config):
        """[rounds] taken by those who claim, of 16."""
        weights = sampling_weights(config.train, messages, max_examples=config.client.max_examples)
        sampler = sampler_of(3000, 16, seed=1, weights=weights)
        cohorts = [sampler.cohort(t).selected for t in range(300)]
        return np.array([np.count_nonzero(cohort >= len(honest)) for cohort in cohorts])

    of_all = share_of_cohorts(sampled().train, accounts / 3000)
    assert of_all == sampled().train.max_sampling_ratio * accounts / 3000
    taken = seats(sampled())
    spread = np.sqrt(16 * of_all * (1 - of_all) / len(taken))
    assert taken.mean() == pytest.approx(16 * of_all, abs=4 * spread)
    if accounts < 150:
        assert taken.max() < 8  # never half of a cohort
    np.testing.assert_array_equal(seats(sampled("max_sampling_ratio = 0.0")), min(accounts, 16))


def test_share_of_cohorts():
    config = sampled("max_sampling_ratio = 4.0").train
    assert [share_of_cohorts(config, share) for share in (0, 0.1, 0.5)] == [0, 0.4, 1]
    assert share_of_cohorts(config_lib.loads("").train, 0.1) == 0.1
    unbounded = sampled("max_sampling_ratio = 0.0").train
    assert [share_of_cohorts(unbounded, share) for share in (0, 0.001)] == [0, 1]
