"""Private means: exact without noise, the right noise with it, the same bits after a resume."""

import functools

import dp_accounting
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from scipy import linalg

from tests.support.noise_fakes import KEY, noised
from tff_keyboard.aggregators.private.adaptive_clip import (
    SLACK,
    clip_with_norm,
    delta_noise_multiplier,
)
from tff_keyboard.aggregators.private.noised_sum import EMPTY_ROUND, NoiseSlot
from tff_keyboard.aggregators.private.private_mean import PrivateMeanFactory
from tff_keyboard.algorithms.rounds.noised import NoisedProcess, map_query_states
from tff_keyboard.privacy.mechanisms.discrete_normal import BITS
from tff_keyboard.privacy.mechanisms.mechanism import named
from tff_keyboard.privacy.mechanisms.noise_streams import (
    IndependentNoise,
    keyed_discrete_draw,
    keyed_draw,
)
from tff_keyboard.privacy.registry.gaussian import Gaussian

SIZE = 1500
VALUE_TYPE = tff.to_type([tff.TensorType(np.float32, [SIZE]), tff.TensorType(np.float32, [2])])
CLIENTS = 5
NUMBERS = {
    "blt": {"decays": (0.5, 0.9), "scales": (0.3, 0.2)},
}


def clients(seed=0, count=CLIENTS, scale=1.0):
    rng = np.random.default_rng(seed)
    return [
        [
            (scale * (k + 1) * rng.normal(size=SIZE) / np.sqrt(SIZE)).astype(np.float32),
            np.zeros(2, np.float32),
        ]
        for k in range(count)
    ]


@functools.cache
def process(mechanism, noise=0.0, key=KEY, clip_norm=2.5):
    return noised(
        built(mechanism, noise, clip_norm), mechanism, key=key, **NUMBERS.get(mechanism, {})
    )


def built(mechanism, noise, clip_norm=2.5):
    """The sum of a mechanism without its noise, of which there are fewer than of mechanisms."""
    if mechanism.startswith("gaussian"):
        return build(mechanism, noise, clip_norm)
    return build("tree", noise, clip_norm)


@functools.cache
def build(mechanism, noise, clip_norm):
    own = {"clipped_count_noise": 0.4} if mechanism.endswith("_adaptive") else {}
    return PrivateMeanFactory(
        mechanism=mechanism,
        clip_norm=clip_norm,
        noise_multiplier=noise,
        clients_per_round=CLIENTS,
        draws_noise=False,
        **own,
    ).create(VALUE_TYPE)


def run(aggregation, rounds, values=None, state=None):
    state = aggregation.initialize() if state is None else state
    outputs = []
    for _ in range(rounds):
        outputs.append(aggregation.next(state, clients() if values is None else values))
        state = outputs[-1].state
    return outputs


def numpy_clipped_sum(values, clip_norm):
    total = np.zeros(SIZE)
    for value in values:
        delta = np.asarray(value[0], np.float64)
        total += delta * min(1, clip_norm / np.linalg.norm(delta))
    return total


def clip_norms(outputs):
    return [float(o.measurements["dp_query_metrics"]["clip_norm"]) for o in outputs]


@pytest.mark.parametrize("mechanism", ["gaussian", "tree", "blt"])
def test_without_noise_it_is_the_clipped_mean(mechanism):
    for output in run(process(mechanism), 2):
        np.testing.assert_allclose(
            output.result[0], numpy_clipped_sum(clients(), 2.5) / CLIENTS, atol=1e-5
        )


def test_missing_clients_do_not_change_the_denominator():
    output = process("gaussian").next(process("gaussian").initialize(), clients()[:2])
    expected = numpy_clipped_sum(clients()[:2], 2.5) / CLIENTS
    np.testing.assert_allclose(output.result[0], expected, atol=1e-5)
    nobody = process("gaussian").next(process("gaussian").initialize(), [])
    assert not np.any(nobody.result[0])


def test_the_clip_norm_follows_the_quantile():
    norms = [np.linalg.norm(v[0]) for v in clients()]
    outputs = run(process("gaussian_adaptive"), 7)
    bound, expected = 2.5, []
    for _ in range(7):
        expected.append(bound)
        unclipped = np.mean([norm <= bound for norm in norms])
        bound *= np.exp(-0.2 * (unclipped - 0.5))
    np.testing.assert_allclose(clip_norms(outputs), expected, rtol=1e-5)
    last = outputs[-1].result[0]
    np.testing.assert_allclose(
        last, numpy_clipped_sum(clients(), expected[-1]) / CLIENTS, atol=1e-5
    )


def test_the_count_of_unclipped_clients_has_noise_of_its_own():
    """Andrew et al. 2021: the last entry of a round's noise, times `count_stddev`, and no other."""
    size = SIZE + 2 + 1
    norms = [np.linalg.norm(v[0]) for v in clients()]
    inside = sum(norm <= 2.5 for norm in norms) - CLIENTS / 2
    count_stddev = 0.4 * CLIENTS
    for first, last in ((0.0, 0.0), (0.0, 0.7), (3.0, -0.5)):
        noise = np.zeros(size)
        noise[0], noise[-1] = first, last
        private = NoisedProcess(
            built("gaussian_adaptive", 1.5),
            lambda _, noise=noise: lambda round_num: noise,
        )
        outputs = run(private, 2)
        unclipped = np.clip((inside + count_stddev * last) / CLIENTS + 0.5, 0, 1)
        expected = 2.5 * np.exp(-0.2 * (unclipped - 0.5))
        assert clip_norms(outputs) == pytest.approx([2.5, expected], rel=1e-5)
        moved = np.asarray(outputs[0].result[0]) * CLIENTS - numpy_clipped_sum(clients(), 2.5)
        stddev = 2.5 * delta_noise_multiplier(1.5, count_stddev)
        np.testing.assert_allclose(moved, stddev * noise[:SIZE], atol=1e-4)


@pytest.mark.parametrize("mechanism", ["gaussian", "gaussian_adaptive"])
def test_noise_has_the_right_standard_deviation(mechanism):
    noise = 1.5
    delta_noise = noise
    if mechanism == "gaussian_adaptive":
        delta_noise = delta_noise_multiplier(noise, 0.4 * CLIENTS)
        assert delta_noise == pytest.approx((1.5**-2 - 4.0**-2) ** -0.5)
    for output in run(process(mechanism, noise), 2):
        bound = clip_norms([output])[0]
        residual = np.asarray(output.result[0]) * CLIENTS - numpy_clipped_sum(clients(), bound)
        # 1,500 draws: a standard error of 1.8 %.
        assert np.std(residual) == pytest.approx(delta_noise * bound, rel=0.08)
        assert np.std(residual) == pytest.approx(
            output.measurements["dp_query_metrics"]["noise_stddev"], rel=0.08
        )


def test_tree_noise_of_running_sums_grows_as_honakers():
    """After t = 2^d rounds one node covers all: variance sigma^2 / (2 - 2^-d), Honaker 2015."""
    outputs = run(process("tree", 1.0), 4)
    running = np.zeros(SIZE)
    for round_num, output in enumerate(outputs, start=1):
        running += np.asarray(output.result[0], np.float64) * CLIENTS
        noise = running - round_num * numpy_clipped_sum(clients(), 2.5)
        variance = {1: 1, 2: 1 / 1.5, 3: 1 / 1.5 + 1, 4: 1 / 1.75}[round_num]
        assert np.std(noise) == pytest.approx(2.5 * np.sqrt(variance), rel=0.08)


def test_correlated_noise_is_the_dense_inverse_of_independent_noise():
    """C (released noise) = independent draws, to float32: what privacy is accounted for."""
    rounds = 6
    outputs = run(process("blt", 2.0), rounds)
    mean = numpy_clipped_sum(clients(), 2.5)
    noises = [np.asarray(o.result[0], np.float64) * CLIENTS - mean for o in outputs]
    matrix = named("blt", **NUMBERS["blt"]).matrix()
    dense = linalg.toeplitz(matrix.column(rounds), np.zeros(rounds))
    draws = IndependentNoise(keyed_draw(KEY), SIZE + 2)
    expected = 5.0 * np.array([draws.next()[:SIZE] for _ in range(rounds)])
    np.testing.assert_allclose(dense @ noises, expected, atol=1e-5)


@pytest.mark.parametrize("mechanism", ["gaussian", "gaussian_adaptive", "tree", "blt"])
def test_a_resumed_run_repeats_the_bits(mechanism):
    straight = run(process(mechanism, 1.0), 5)
    restored = tf.nest.map_structure(lambda x: np.array(x), straight[1].state)
    anew = noised(  # another process, which has drawn nothing yet
        built(mechanism, 1.0), mechanism, **NUMBERS.get(mechanism, {})
    )
    resumed = run(anew, 3, state=restored)
    for one, other in zip(straight[2:], resumed, strict=True):
        np.testing.assert_array_equal(one.result[0], other.result[0])
        assert clip_norms([one]) == clip_norms([other])


@pytest.mark.parametrize("mechanism", ["gaussian", "tree", "blt"])
def test_states_hold_no_noise(mechanism):
    """What is kept and checkpointed: two floats and a counter, whatever the mechanism."""
    output = run(process(mechanism, 1.0), 2)[-1]
    query = output.state.query_state
    assert len(query.slot.values) == 0
    assert int(query.slot.round) == EMPTY_ROUND
    large = [x for x in tf.nest.flatten(output.state) if np.size(x) > 1]
    assert not large


def test_a_round_without_its_noise_fails():
    """No sum without noise leaves the mechanism."""
    bare = built("gaussian", 1.0)
    with pytest.raises(Exception, match="no privacy noise"):
        bare.next(bare.initialize(), clients())
    state = bare.initialize()
    slot = NoiseSlot(np.int64(1), np.zeros(SIZE + 2))  # that of another round
    stale = map_query_states(state, lambda query: query._replace(slot=slot))
    with pytest.raises(Exception, match="no privacy noise"):
        bare.next(stale, clients())
    fresh = map_query_states(state, lambda q: q._replace(slot=slot._replace(round=np.int64(0))))
    assert np.all(np.isfinite(bare.next(fresh, clients()).result[0]))


@pytest.mark.parametrize(
    "options", [{}, {"mechanism": "gaussian_adaptive", "clipped_count_noise": 40.0}]
)
def test_by_itself_a_gaussian_mean_draws_noise_of_the_stated_size(options):
    factory = PrivateMeanFactory(
        clip_norm=2.5, noise_multiplier=2.0, clients_per_round=CLIENTS, **options
    )
    aggregation = factory.create(VALUE_TYPE)
    zeros = [[np.zeros(SIZE, np.float32), np.zeros(2, np.float32)]] * CLIENTS
    first, second = (o.result[0] for o in run(aggregation, 2, zeros))
    stddev = 2.5 * 2.0 / CLIENTS
    np.testing.assert_allclose(np.std(first), stddev, rtol=0.1)  # 1,500 draws: 5 standard errors
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.15


@pytest.mark.parametrize(
    "options", [{"mechanism": "tree"}, {"mechanism": "blt"}, {"distribution": "discrete"}]
)
def test_by_itself_a_mean_of_other_noise_fails(options):
    factory = PrivateMeanFactory(noise_multiplier=1.0, clients_per_round=CLIENTS, **options)
    aggregation = factory.create(VALUE_TYPE)
    with pytest.raises(Exception, match="no privacy noise"):
        aggregation.next(aggregation.initialize(), clients())


def test_noise_is_added_in_double_precision():
    """The result is the float32 nearest to sum + noise in float64."""
    aggregation = built("gaussian", 1.0)
    values = np.random.default_rng(0).normal(size=SIZE + 2)
    slot = NoiseSlot(np.int64(0), values)
    state = map_query_states(aggregation.initialize(), lambda q: q._replace(slot=slot))
    result = aggregation.next(state, []).result[0]
    np.testing.assert_array_equal(result, (2.5 * values[:SIZE] / CLIENTS).astype(np.float32))


def test_a_process_without_a_slot_is_refused():
    mean = tff.aggregators.MeanFactory().create(VALUE_TYPE, tff.TensorType(np.float32))
    with pytest.raises(ValueError, match="0 private sums in its state; 1 is needed"):
        noised(mean)


@pytest.mark.parametrize("mechanism", ["gaussian", "tree"])
def test_noise_differs_by_key_round_and_tensor(mechanism):
    one, two = run(process(mechanism, 1.0), 2)
    other = run(process(mechanism, 1.0, key=bytes(32)), 1)[0]
    mean = numpy_clipped_sum(clients(), 2.5) / CLIENTS
    noises = [np.asarray(o.result[0], np.float64) - mean for o in (one, two, other)]
    correlations = np.corrcoef(noises)
    # Rounds of one tree are correlated by design: -0.5 at most between neighbours.
    assert abs(correlations[0, 2]) < 0.12
    assert not np.allclose(noises[0][:2], np.asarray(one.result[1]))
    if mechanism == "gaussian":
        assert abs(correlations[0, 1]) < 0.12


def test_dp_events_describe_the_mechanism():
    extract = tff.aggregators.differential_privacy.extract_dp_event_from_state
    state = run(process("gaussian_adaptive", 1.5), 1)[0].state
    assert extract(state) == dp_accounting.GaussianDpEvent(1.5)
    tree = run(process("tree", 1.0), 1)[0].state
    assert extract(tree) == dp_accounting.UnsupportedDpEvent()


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e10, 1e30])
def test_clipping_never_leaves_the_ball(size):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        record = [tf.constant(size * rng.normal(size=(40, 3)), tf.float32), tf.constant([size])]
        clipped, norm = clip_with_norm(record, tf.constant(0.3))
        flat = np.concatenate([np.ravel(np.asarray(x, np.float64)) for x in clipped])
        assert np.linalg.norm(flat) <= np.float64(np.float32(0.3))
        if norm > 0.3:
            # The norm is taken for up to 2e-5 longer than it is (`adaptive_clip.py`).
            assert np.linalg.norm(flat) == pytest.approx(0.3, rel=3e-5)


def test_huge_deltas_do_not_overflow():
    values = clients(scale=1e25)
    output = run(process("gaussian"), 1, values)[0]
    np.testing.assert_allclose(
        output.result[0], numpy_clipped_sum(values, 2.5) / CLIENTS, rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"clip_norm": 0.0}, "`clip_norm` must be > 0"),
        ({"noise_multiplier": -1.0}, "`noise_multiplier` must be 0, or in 1e-6"),
        ({"clients_per_round": 0}, "`clients_per_round` must be >= 1"),
        ({"mechanism": "none"}, "`mechanism` must be one of 'blt', .*'tree', got 'none'"),
        (
            {
                "noise_multiplier": 1.0,
                "mechanism": "gaussian_adaptive",
            },
            "Raise `clipped_count_noise`",
        ),
    ],
)
def test_wrong_arguments_are_named(changes, words):
    arguments = {"clip_norm": 1.0, "noise_multiplier": 0.5, "clients_per_round": 10} | changes
    with pytest.raises(ValueError, match=words):
        PrivateMeanFactory(**arguments)


def test_no_argument_is_taken_and_ignored():
    with pytest.raises(TypeError, match="`buffers` has no effect with `mechanism` = 'gaussian'"):
        PrivateMeanFactory(clients_per_round=2, noise_multiplier=1.0, buffers=3)


def discrete_process(noise, draw):
    built = PrivateMeanFactory(
        clip_norm=0.75, distribution="discrete", noise_multiplier=noise, clients_per_round=CLIENTS
    ).create(VALUE_TYPE)
    mechanism = Gaussian(is_discrete=True)
    return NoisedProcess(built, lambda size: mechanism.noise(draw, size))


@pytest.mark.parametrize("noise", [0.5, 4.0])
def test_a_discrete_sum_is_of_integers_with_the_stated_sensitivity(noise):
    """Without its noise the result is a sum of records cut towards zero to the grid, exactly."""
    run = discrete_process(noise, lambda label, size: np.zeros(size))
    values = clients()
    result = run.next(run.initialize(), values).result
    step = noise * 0.75 / 2**BITS
    expected = np.zeros(SIZE)
    for first, _ in values:
        exact = first.astype(np.float64)
        norm = np.linalg.norm(exact) * (1 + SLACK)  # as `adaptive_clip.py` takes it
        if norm > 0.75:
            factor = np.float32(0.75 * (1 - 1e-6) / norm)
            exact = (first * factor).astype(np.float64)
        whole = np.trunc(exact / step)
        assert np.linalg.norm(whole) <= 0.75 / step  # the sensitivity, in steps
        expected += whole
    got = np.asarray(result[0], np.float64) * CLIENTS / step
    np.testing.assert_allclose(got, expected, atol=2, rtol=1e-6)  # the result is float32
    assert np.abs(np.asarray(result[0]) * CLIENTS - sum(v[0] for v in values)).max() > 1e-3


@pytest.mark.parametrize("mechanism", ["gaussian", "tree", "blt"])
def test_a_secure_sum_gets_the_noise_of_a_sum_of_updates(mechanism):
    """Integers of steps in, and (their sum in weight units + z C w) / denominator out."""
    z, clip_norm = 7.0, 0.3
    built = PrivateMeanFactory(
        mechanism=mechanism,
        clip_norm=clip_norm,
        noise_multiplier=z,
        clients_per_round=CLIENTS,
        takes_sums=True,
        draws_noise=False,
    ).create(VALUE_TYPE)
    rng = np.random.default_rng(0)
    parts = [
        [rng.integers(-(2**23), 2**23, n).astype(np.float32) * 2.0**k for n in (SIZE, 2)]
        for k in (0, 24)
    ]
    values = rng.normal(size=SIZE + 2)
    slot = NoiseSlot(np.int64(0), values)
    state = map_query_states(built.initialize(), lambda q: q._replace(slot=slot))
    output = built.next(state, parts)
    step = np.float64(np.float32(clip_norm)) / 2**20
    total = (parts[0][0].astype(np.int64) + parts[1][0].astype(np.int64)) * step
    noise = z * np.float64(np.float32(clip_norm)) * values[:SIZE]
    np.testing.assert_allclose(output.result[0], (total + noise) / CLIENTS, rtol=1e-6)
    metrics = output.measurements["dp_query_metrics"]
    assert metrics["noise_stddev"] == pytest.approx(z * clip_norm)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"mechanism": "gaussian_adaptive"}, "'gaussian_adaptive': the norm would follow"),
        ({"mechanism": "tree", "noise_multiplier": 0.0}, "`noise_multiplier` must be > 0"),
    ],
)
def test_sums_that_cannot_be_private_are_refused(options, message):
    options = {"noise_multiplier": 0.5, **options}
    with pytest.raises(ValueError, match=message):
        PrivateMeanFactory(clients_per_round=CLIENTS, takes_sums=True, **options)


def test_discrete_noise_has_the_stated_size():
    run = discrete_process(2.0, keyed_discrete_draw(KEY))
    zeros = [[np.zeros(SIZE, np.float32), np.zeros(2, np.float32)]] * CLIENTS
    result = np.asarray(run.next(run.initialize(), zeros).result[0], np.float64)
    assert result.std() == pytest.approx(2.0 * 0.75 / CLIENTS, rel=0.08)
    whole = result * CLIENTS / (2.0 * 0.75 / 2**BITS)
    np.testing.assert_allclose(whole, np.round(whole), atol=0.6)
