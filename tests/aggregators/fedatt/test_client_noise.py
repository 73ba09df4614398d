"""Eq. 6: the right standard deviation, other noise for other clients, the same on a rerun."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.support.aggregation_fakes import WEIGHT_TYPE, one_round
from tff_keyboard.aggregators.fedatt.client_noise import ClientNoiseFactory

SIZE = 2000
VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, [SIZE]), tff.TensorType(np.float32, [3])])


def build(seed=1, scale=0.1):
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    factory = ClientNoiseFactory(mean, scale, seed=seed)
    return factory.create(VALUE_TYPE, WEIGHT_TYPE)


def clients(count):
    rng = np.random.default_rng(0)
    return [
        [rng.normal(size=SIZE).astype(np.float32), rng.normal(size=3).astype(np.float32)]
        for _ in range(count)
    ]


@pytest.fixture(scope="module")
def process():
    return build()


def noise_of(output, values):
    return np.asarray(output.result[0], np.float64) - np.mean([v[0] for v in values], axis=0)


@pytest.mark.parametrize("count", [1, 4])
def test_standard_deviation_is_beta_sigma(process, count):
    """4 clients with independent noise: the mean's is half of one client's."""
    values = clients(count)
    noise = noise_of(one_round(process, values, [1.0] * count), values)
    expected = 0.1 / np.sqrt(count)
    # Standard error of a standard deviation from 2,000 draws is 1.6 %; 6 of them.
    assert np.std(noise) == pytest.approx(expected, rel=0.1)
    assert abs(np.mean(noise)) < 6 * expected / np.sqrt(SIZE)


def test_clients_and_tensors_have_noise_of_their_own(process):
    first, second = clients(2)
    noises = [noise_of(one_round(process, [v], [1.0]), [v]) for v in (first, second)]
    assert abs(np.corrcoef(*noises)[0, 1]) < 0.15
    output = one_round(process, [first], [1.0])
    other_tensor = np.asarray(output.result[1]) - first[1]
    assert not np.allclose(other_tensor, noises[0][:3])


def test_a_rerun_repeats_the_bits_and_rounds_differ(process):
    values = clients(3)
    one = one_round(process, values, [1.0] * 3)
    again = one_round(process, values, [1.0] * 3)
    np.testing.assert_array_equal(one.result[0], again.result[0])
    second = one_round(process, values, [1.0] * 3, one.state)
    second_again = one_round(process, values, [1.0] * 3, again.state)
    np.testing.assert_array_equal(second.result[0], second_again.result[0])
    assert abs(np.corrcoef(noise_of(one, values), noise_of(second, values))[0, 1]) < 0.15
    assert second.state["round"] == 2


def test_seeds_differ(process):
    values = clients(1)
    other = one_round(build(seed=2), values, [1.0])
    correlation = np.corrcoef(
        noise_of(one_round(process, values, [1.0]), values), noise_of(other, values)
    )
    assert abs(correlation[0, 1]) < 0.15


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"scale": 0.0}, "`scale` must be > 0, got 0.0"),
        ({"seed": -1}, "`seed` must be >= 0, got -1"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        build(**arguments)
