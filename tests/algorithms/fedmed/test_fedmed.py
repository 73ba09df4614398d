"""FedMed against Algorithm 1 in NumPy, over rounds; ties, masks, topK, mediation."""

import collections
import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.aggregation_fakes import (
    GROUPS,
    LAYERS,
    VALUE_TYPE,
    WEIGHT_TYPE,
    assert_close,
    deltas,
    in_float64,
    one_round,
    softmax,
)
from tests.support.examples import examples
from tff_keyboard.aggregators.fedmed.accumulator import fedmed_weight_type
from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.aggregators.registry.fedmed import FedMedConfig

DELTA_BYTES = 4 * (6 + 4 + 1)


class NumpyFedMed:
    """Wu et al. 2020, Algorithm 1, with state across rounds."""

    def __init__(self, fraction=1.0, threshold=0.1, layers=LAYERS):
        self.fraction, self.threshold, self.layers = fraction, threshold, layers
        self.previous = None

    def round(self, values, examples, losses, divergences):
        """Distinct losses; returns the aggregate, whether it was adaptive, and K."""
        kept = [k for k, n in enumerate(examples) if n > 0]
        if not kept:
            return [np.zeros_like(x) for x in values[0]] if values else None, None, 0
        mean = np.mean([losses[k] for k in kept])
        adaptive = self.previous is None or abs(mean - self.previous) >= self.threshold
        self.previous = mean
        best = sorted(kept, key=lambda k: losses[k])[: math.ceil(self.fraction * len(kept) - 1e-9)]
        result = [None] * len(values[0])
        for number, positions in enumerate(self.layers):
            if adaptive:
                weights = softmax([divergences[k][number] for k in best])
            else:
                weights = np.array([examples[k] for k in best]) / sum(examples[k] for k in best)
            for i in positions:
                result[i] = sum(w * values[k][i] for w, k in zip(weights, best, strict=True))
        return result, adaptive, len(best)


@functools.cache
def process(fraction=1.0, threshold=0.1, max_clients=8, grouped=False):
    factory = FedMedFactory(
        max_clients=max_clients,
        top_fraction=fraction,
        mediation_threshold=threshold,
        layer_groups=GROUPS if grouped else {},
    )
    return factory.create(VALUE_TYPE, fedmed_weight_type(2 if grouped else 3))


def weights(examples, losses, divergences):
    return [
        collections.OrderedDict(
            num_examples=np.float32(n), loss=np.float32(loss), divergence=np.float32(d)
        )
        for n, loss, d in zip(examples, losses, divergences, strict=True)
    ]


def random_round(rng, clients, num_layers=3, base_loss=2.0):
    losses = np.float32(base_loss + rng.permutation(clients) * 0.01)
    return (
        deltas(rng.integers(2**31), clients),
        rng.integers(1, 50, clients).astype(np.float64),
        losses.astype(np.float64),
        rng.uniform(0, math.log(2), [clients, num_layers]),
    )


@pytest.mark.parametrize(
    "fraction, grouped",
    [
        (0.5, True),
        *(pytest.param(1.0, grouped, marks=pytest.mark.slow) for grouped in (False, True)),
        *(pytest.param(0.34, grouped, marks=pytest.mark.slow) for grouped in (False, True)),
        pytest.param(0.5, False, marks=pytest.mark.slow),
    ],
)
def test_is_algorithm_1_over_rounds(fraction, grouped):
    truth = NumpyFedMed(fraction, 0.1, [(0, 2), (1,)] if grouped else LAYERS)
    aggregation = process(fraction, 0.1, grouped=grouped)
    state, rng, branches = None, np.random.default_rng(0), []
    for base_loss in (3.0, 3.05, 2.0, 2.02):
        values, examples, losses, divergences = random_round(rng, 7, 2 if grouped else 3, base_loss)
        examples[2] = 0
        expected, adaptive, top = truth.round(in_float64(values), examples, losses, divergences)
        output = one_round(aggregation, values, weights(examples, losses, divergences), state)
        state = output.state
        branches.append(adaptive)
        assert_close(output.result, expected)
        assert output.measurements["adaptive"] == adaptive
        assert output.measurements["clients"] == 6
        assert output.measurements["top_clients"] == top
        assert output.measurements["bytes_not_uploaded"] == (6 - top) * DELTA_BYTES
        np.testing.assert_allclose(output.measurements["mean_loss"], truth.previous, rtol=1e-6)
    assert branches == [True, False, True, False]
    assert state["round"] == 4


@pytest.mark.slow
@examples(40)
@given(
    seed=st.integers(0, 2**31),
    clients=st.integers(1, 8),
    fraction=st.sampled_from([1.0, 0.5, 0.34]),
    log_scale=st.floats(-5, 4),
    mask=st.integers(0, 255),
)
def test_any_clients_scale_and_mask(seed, clients, fraction, log_scale, mask):
    values, examples, losses, divergences = random_round(np.random.default_rng(seed), clients)
    values = [[np.float32(x * 10**log_scale) for x in v] for v in values]
    examples = [n * (mask >> k & 1) for k, n in enumerate(examples)]
    truth = NumpyFedMed(fraction, 0.1)
    expected, _, top = truth.round(in_float64(values), examples, losses, divergences)
    aggregation = process(fraction, 0.1)
    output = one_round(aggregation, values, weights(examples, losses, divergences))
    assert_close(output.result, expected, rtol=2e-5, atol=1e-5 * 10**log_scale)
    assert output.measurements["top_clients"] == top


def test_the_order_of_clients_does_not_matter_even_with_ties():
    values, examples, _, divergences = random_round(np.random.default_rng(1), 8)
    losses = [1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0, 2.0]
    order = np.random.default_rng(2).permutation(8)
    results = []
    for o in (range(8), order):
        shuffled = [values[k] for k in o]
        described = weights(
            [examples[k] for k in o], [losses[k] for k in o], [divergences[k] for k in o]
        )
        results.append(one_round(process(0.5), shuffled, described))
    assert_close(results[0].result, results[1].result, rtol=1e-6, atol=1e-7)
    assert results[0].measurements["top_clients"] == 4


def test_a_tie_is_decided_not_shared():
    """Two of three equal losses contribute: the mean is that of some two of them."""
    values = deltas(5, 3)
    described = weights([1, 1, 1], [2.0] * 3, np.zeros([3, 3]))
    output = one_round(process(0.5), values, described)
    pairs = [(0, 1), (0, 2), (1, 2)]
    candidates = [(values[a][0] + values[b][0]) / 2 for a, b in pairs]
    assert sum(np.allclose(output.result[0], c, atol=1e-6) for c in candidates) == 1


def test_mediation_threshold_zero_is_always_adaptive():
    state = None
    for _ in range(2):
        output = one_round(
            process(threshold=0.0),
            deltas(0, 2),
            weights([1, 9], [2.0, 2.5], np.zeros([2, 3])),
            state,
        )
        state = output.state
        assert output.measurements["adaptive"] == 1
        assert output.measurements["loss_change"] == 0


def test_equal_divergences_are_the_unweighted_mean_and_measured_so():
    values = deltas(6, 4)
    output = one_round(process(), values, weights([1, 5, 9, 2], [1, 2, 3, 4], np.ones([4, 3])))
    assert_close(output.result, [np.mean([v[i] for v in values], axis=0) for i in range(3)])
    for layer in output.measurements["attention"].values():
        assert layer["effective_clients"] == pytest.approx(4, rel=1e-6)
        assert layer["maximum_weight"] == pytest.approx(0.25, rel=1e-6)


def test_a_lying_client_gains_at_most_a_factor_of_two():
    values = deltas(7, 3)
    divergences = np.zeros([3, 3])
    divergences[1] = 1e30
    output = one_round(process(), values, weights([1] * 3, [1, 2, 3], divergences))
    assert output.measurements["attention"]["layer_0"]["maximum_weight"] == pytest.approx(0.5)


def test_one_client_zero_updates_and_no_clients():
    value = deltas(8, 1)
    one = one_round(process(0.5), value, weights([3], [2.0], [[0.1, 0.2, 0.3]]))
    assert_close(one.result, value[0])
    nothing = [[np.zeros_like(x) for x in value[0]]] * 3
    zeros = one_round(process(0.5), nothing, weights([1] * 3, [1, 2, 3], np.zeros([3, 3])))
    assert all(not np.any(x) for x in zeros.result)
    for values, described in [([], []), (value, weights([0], [5.0], np.zeros([1, 3])))]:
        empty = one_round(process(0.5), values, described, one.state)
        assert all(not np.any(x) for x in empty.result)
        assert dict(empty.state) == dict(one.state)
        assert empty.measurements["clients"] == 0


def test_left_out_clients_cannot_poison_the_sums():
    values = deltas(9, 4)
    values[3] = [np.full_like(x, 3e37) for x in values[3]]
    described = weights([1] * 4, [1.0, 2.0, 3.0, 99.0], np.zeros([4, 3]))
    output = one_round(process(0.75, max_clients=4), values, described)
    assert_close(output.result, [np.mean([v[i] for v in values[:3]], axis=0) for i in range(3)])


def test_more_clients_than_expected_fail_the_round():
    with pytest.raises(Exception, match="at most 2 clients per round"):
        one_round(
            process(0.5, max_clients=2), deltas(0, 3), weights([1] * 3, [1, 2, 3], np.zeros([3, 3]))
        )


def test_top_count_is_not_fooled_by_binary_fractions():
    for fraction in (0.1, 0.2, 0.3, 0.6, 0.7, 0.8):
        for clients in range(0, 200, 10):
            assert FedMedConfig(top_fraction=fraction).top_count(clients) == round(
                fraction * clients
            )


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"top_fraction": 0.0}, r"`aggregation.rule.top_fraction` must be in \(0, 1\], got 0.0"),
        (
            {"mediation_threshold": -1.0},
            "mediation_threshold` must be >= 0, got -1.0",
        ),
        ({"local_loss": "before"}, "must be one of 'during_training', 'after_training'"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        FedMedConfig(**arguments)


def test_empty_cohort_is_refused():
    with pytest.raises(ValueError, match="`max_clients` must be >= 1, got 0"):
        FedMedFactory(max_clients=0)


def test_a_plain_weight_is_refused():
    with pytest.raises(TypeError, match="build the process with `build_fedmed`"):
        FedMedFactory(max_clients=4).create(VALUE_TYPE, WEIGHT_TYPE)
