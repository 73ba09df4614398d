"""Multi-Krum against NumPy, its limiting cases, and its defence against attackers."""

import functools

import numpy as np
import pytest

from tests.support.aggregation_fakes import (
    SHAPES,
    VALUE_TYPE,
    WEIGHT_TYPE,
    deltas,
    one_round,
    vector,
)
from tff_keyboard import config as config_lib
from tff_keyboard.parts.aggregator import AGGREGATORS, AggregatorRun
from tff_keyboard.training import preflight

ALL = range(len(SHAPES))


@functools.cache
def process(max_attackers, selected=0):
    options = AGGREGATORS["multi_krum"](max_attackers=max_attackers, selected=selected)
    return options.build(AggregatorRun(clients_per_round=20)).create(VALUE_TYPE, WEIGHT_TYPE)


def numpy_multi_krum(rows, max_attackers, selected=0):
    """The equations with loops: rows [clients, numbers] -> result, number of selected clients."""
    clients = len(rows)
    attackers = min(max_attackers, max((clients - 3) // 2, 0))
    closest = max(clients - attackers - 2, 0)
    scores = []
    for i in range(clients):
        others = [np.sum((rows[i] - rows[j]) ** 2) for j in range(clients) if j != i]
        scores.append(sum(sorted(others)[:closest]))
    count = max(min(selected or closest, closest), 1)
    best = np.array(scores) <= sorted(scores)[count - 1]
    return rows[best].mean(axis=0), best.sum()


@pytest.mark.parametrize("max_attackers, selected", [(1, 0), (3, 0), (2, 1), (2, 4)])
@pytest.mark.parametrize("clients", [1, 2, 3, 4, 7, 12])
def test_equals_numpy(max_attackers, selected, clients):
    values = deltas(clients + 10, clients)
    rows = np.stack([vector(value, ALL) for value in values])
    output = one_round(process(max_attackers, selected), values, [1.0] * clients)
    expected, count = numpy_multi_krum(rows, max_attackers, selected)
    np.testing.assert_allclose(vector(output.result, ALL), expected, rtol=1e-5, atol=1e-6)
    assert output.measurements["clients"] == clients
    assert output.measurements["selected_clients"] == count


def test_krum_selects_one_client():
    values = deltas(3, 9)
    output = one_round(process(2, 1), values, [1.0] * 9)
    assert output.measurements["selected_clients"] == 1
    rows = np.stack([vector(value, ALL) for value in values])
    assert min(np.abs(rows - vector(output.result, ALL)).max(axis=1)) < 1e-6


@pytest.mark.parametrize("size", [3.0, 1e15])
def test_attackers_that_agree_far_away_are_not_selected(size):
    honest = deltas(4, 7)
    attack = [np.full_like(x, size) for x in honest[0]]
    output = one_round(process(3), [attack] * 3 + honest, [1.0] * 10)
    rows = np.stack([vector(value, ALL) for value in honest])
    result = vector(output.result, ALL)
    assert np.all(result >= rows.min(axis=0) - 1e-6)
    assert np.all(result <= rows.max(axis=0) + 1e-6)


def test_clients_without_weight_do_not_count():
    values = deltas(5, 8)
    output = one_round(process(1), values, [1.0] * 6 + [0.0] * 2)
    expected = one_round(process(1), values[:6], [7.0] * 6)
    np.testing.assert_array_equal(vector(output.result, ALL), vector(expected.result, ALL))
    assert output.measurements["clients"] == 6


def test_empty_round_gives_zeros():
    output = one_round(process(1), deltas(6, 2), [0.0, 0.0])
    assert not np.any(vector(output.result, ALL))
    assert output.measurements["selected_clients"] == 0


def config(*overrides):
    return config_lib.loads("", ["aggregation.rule.type=multi_krum", *overrides])


@pytest.mark.parametrize(
    "overrides, words",
    [
        (["train.clients_per_round=8", "aggregation.rule.max_attackers=3"], ">= 9, got 8"),
        (["train.clients_per_round=9", "aggregation.rule.selected=8"], "must be <= 6.*got 8"),
    ],
)
def test_small_cohorts_are_refused(overrides, words):
    bad = config(*overrides)
    with pytest.raises(config_lib.ConfigError, match=words):
        preflight.check_defence(bad.train, bad.aggregation.rule)


def test_dropouts_are_warned_of():
    risky = config(
        "train.clients_per_round=9", "aggregation.rule.max_attackers=3", "train.dropout_rate=0.2"
    )
    with pytest.warns(UserWarning, match="leaves about 7 of 9 clients"):
        preflight.check_defence(risky.train, risky.aggregation.rule)


@pytest.mark.parametrize(
    "overrides, words",
    [
        (["aggregation.rule.max_attackers=0"], "must be >= 1"),
        (["aggregation.rule.selected=-1"], "must be >= 0"),
        (
            ["aggregation.privacy.type=gaussian", "aggregation.client_weighting=uniform"],
            "no clipped sensitivity",
        ),
    ],
)
def test_wrong_options_are_refused(overrides, words):
    with pytest.raises(config_lib.ConfigError, match=words):
        config(*overrides)
