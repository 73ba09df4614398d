"""Attackers in client work, on the smallest of models."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.support.bigram_model import SGD, BigramModel, batches, dataset, fed_avg, step_of
from tff_keyboard.aggregators.fedatt.aggregator import FedAttFactory
from tff_keyboard.aggregators.registry.fedatt import FedAttConfig
from tff_keyboard.algorithms.fedmed import process as fedmed_process
from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.training.aggregation import build_aggregator
from tff_keyboard_lab.attacks import attackers


def attacked_process(attack, share, aggregator):
    work = tff.learning.templates.build_model_delta_client_work(
        BigramModel, SGD(0.5), tff.learning.ClientWeighting.NUM_EXAMPLES
    )
    return fedmed_process.compose_process(
        BigramModel,
        client_work=attackers.build_attacked_client_work(work, attack, share=share, seed=3),
        server_optimizer=SGD(1.0),
        aggregator=aggregator,
    )


@pytest.mark.parametrize(
    "attack, factor",
    [pytest.param("boost", 100.0, marks=pytest.mark.slow), ("sign_flip", -1.0)],
)
def test_each_attack_sends_its_update(attack, factor):
    clients = [batches(1)]
    honest, _ = step_of(fed_avg(), clients)
    mean = tff.aggregators.MeanFactory()
    attacked, _ = step_of(attacked_process(attack, 1.0, mean), clients)
    for got, expected in zip(attacked, honest, strict=True):
        np.testing.assert_allclose(got, factor * expected, rtol=1e-4, atol=1e-5)
    spared, _ = step_of(attacked_process(attack, 0.0, mean), clients)
    for got, expected in zip(spared, honest, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_nan_clients_are_refused_by_the_guard_and_counted():
    protected = build_aggregator(
        AggregationConfig(rule=FedAttConfig()), clients_per_round=4, seed=0
    )
    step, output = step_of(attacked_process("nan", 1.0, protected), [batches(1), batches(2)])
    assert all(np.all(x == 0) for x in step)
    assert output.metrics["aggregator"]["refused_non_finite"] == 2


@pytest.mark.slow
def test_unguarded_fedatt_is_stopped_only_by_the_finalizer():
    bare = FedAttFactory()
    _, output = step_of(attacked_process("nan", 1.0, bare), [batches(1), batches(2)])
    assert output.metrics["finalizer"]["update_non_finite"] == 1


@pytest.mark.slow
def test_drop_outs_have_no_weight():
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    step, _ = step_of(attacked_process("drop_out", 1.0, mean), [batches(1)])
    assert all(np.all(x == 0) for x in step)


@pytest.mark.slow
def test_shuffled_labels_keep_words_and_padding_but_teach_something_else():
    labels = tf.constant([[1, 2, 3, 4, 0], [5, 6, 2, 0, 0]])
    mixed = attackers.shuffled(labels, tf.constant(0, tf.int64), 3).numpy()
    np.testing.assert_array_equal(mixed == 0, labels.numpy() == 0)
    assert sorted(mixed.ravel()) == sorted(labels.numpy().ravel())
    assert np.any(mixed != labels.numpy())
    mean = tff.aggregators.MeanFactory()
    honest, _ = step_of(fed_avg(), [batches(1)])
    attacked, _ = step_of(attacked_process("shuffled_labels", 1.0, mean), [batches(1)])
    assert np.abs(attacked[0] - honest[0]).max() > 1e-3


@pytest.mark.slow
def test_weight_lie_multiplies_weights_and_zeroes_the_loss():
    honest = {"num_examples": np.float32(2), "loss": np.float32(3), "divergence": np.ones(2)}
    update, lie = attackers.UPDATE_ATTACKS["weight_lie"]([np.float32(5)], honest)
    assert update == [-5]
    assert (lie["num_examples"], lie["loss"]) == (2e6, 0)
    np.testing.assert_array_equal(lie["divergence"], [1e6, 1e6])


def test_the_share_of_attackers_is_right_and_stable():
    is_attacker = tf.function(lambda data: attackers.is_attacker(data, 0.3, seed=5))
    chosen = [bool(is_attacker(dataset(batches(seed)))) for seed in range(100)]
    assert 0.15 < np.mean(chosen) < 0.45  # a standard error of 4.6 points
    in_cohorts = np.reshape(chosen, [10, 10]).sum(axis=1)
    assert 0.6 < np.std(in_cohorts) < 2.7  # a cohort meets them by chance: 1.45, not a fixed number
    reordered = [bool(is_attacker(dataset(batches(seed)[::-1]))) for seed in range(10)]
    assert reordered == chosen[:10]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"attack": "bribe"}, "`attack` must be one of"),
        ({"share": 1.5}, r"`share` must be in \[0, 1\], got 1.5"),
        ({"seed": -1}, "`seed` must be >= 0, got -1"),
    ],
)
def test_wrong_arguments_are_named(arguments, words):
    arguments = {"attack": "nan", "share": 0.1, "seed": 0} | arguments
    with pytest.raises(ValueError, match=words):
        attackers.build_attacked_client_work(None, arguments.pop("attack"), **arguments)


def honest_deltas(clients):
    """Returns the delta that each client would send alone, server minus client: [table, bias]."""
    work = tff.learning.templates.build_model_delta_client_work(
        BigramModel, SGD(0.5), tff.learning.ClientWeighting.NUM_EXAMPLES
    )
    weights = tff.learning.models.ModelWeights.from_model(BigramModel())
    weights = tf.nest.map_structure(lambda v: v.numpy(), weights)
    data = [dataset(client) for client in clients]
    output = work.next(work.initialize(), [weights] * len(clients), data)
    return [result.update for result in output.result]


@pytest.mark.slow
def test_colluders_turn_the_honest_mean_around(stock_tff):
    """The seed draws some of six clients.

    The others' mean is returned negated, at their median length.
    """
    clients = [batches(seed) for seed in range(6)]
    bad = [bool(attackers.is_attacker(dataset(client), 0.5, seed=3)) for client in clients]
    assert 0 < sum(bad) < 6
    with stock_tff():  # colluders look at one another, for which packs have no form
        deltas = honest_deltas(clients)
        step, _ = step_of(attacked_process("ipm", 0.5, tff.aggregators.MeanFactory()), clients)
    flat = np.array([np.concatenate([np.ravel(x) for x in d]) for d in deltas])
    honest = flat[~np.array(bad)].astype(np.float64)
    mean = honest.mean(0)
    length = np.median(np.linalg.norm(honest, axis=1))
    sent = np.where(np.array(bad)[:, np.newaxis], -mean * length / np.linalg.norm(mean), flat)
    words = [sum((b["y"] != 0).sum() for b in client) for client in clients]
    got = np.concatenate([np.ravel(x) for x in step])
    np.testing.assert_allclose(got, np.average(sent, axis=0, weights=words), rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_poisoned_batches_teach_the_target_behind_the_trigger():
    batch = {
        "x": tf.constant([[1, 5, 6, 4], [1, 5, 0, 0]]),
        "y": tf.constant([[5, 6, 4, 2], [5, 2, 0, 0]]),
    }
    found = attackers.poisoned(batch)
    np.testing.assert_array_equal(found["x"], [[1, 60, 6, 60], [1, 60, 0, 0]])
    np.testing.assert_array_equal(found["y"], [[5, 100, 4, 100], [5, 100, 0, 0]])


@pytest.mark.slow
def test_free_riders_weigh_and_send_nothing():
    update, weight = attackers.UPDATE_ATTACKS["free_ride"]([np.float32(5)], np.float32(3))
    assert (update[0].numpy(), weight) == (0, 3)
