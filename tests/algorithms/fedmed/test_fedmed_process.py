"""FedMed as a learning process, on the smallest of models."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from scipy.spatial import distance

from tests.support.bigram_model import SGD, VOCABULARY, BigramModel, batches, dataset, fed_avg
from tff_keyboard.aggregators.fedmed.aggregator import FedMedFactory
from tff_keyboard.algorithms.client_training import build_client_training
from tff_keyboard.algorithms.fedmed import process as fedmed_process


class CountingModel(BigramModel):
    """Reports a metric, and has a loss that is not finite on batches that begin with `TRAP`."""

    def __init__(self):
        super().__init__()
        self.count = tf.Variable(0, trainable=False)

    local_variables = property(lambda self: [self.count])

    @tf.function
    def forward_pass(self, batch_input, training=True):
        output = super().forward_pass(batch_input, training)
        self.count.assign_add(tf.cast(output.num_examples, tf.int32))
        trapped = tf.equal(batch_input["x"][0, 0], TRAP)
        return tff.learning.models.BatchOutput(
            loss=output.loss * tf.where(trapped, np.float32(np.inf), 1.0),
            predictions=None,
            num_examples=output.num_examples,
        )

    @tf.function
    def report_local_unfinalized_metrics(self):
        return collections.OrderedDict(count=self.count.read_value())

    def metric_finalizers(self):
        return collections.OrderedDict(count=tf.function(lambda x: x))

    @tf.function
    def reset_metrics(self):
        self.count.assign(0)


TRAP = VOCABULARY - 1


BLOWN_UP = batches(4, 3, trap=TRAP)


def numpy_loss(weights, batch_list):
    table, bias = weights
    total = tokens = 0.0
    for batch in batch_list:
        logits = table[batch["x"]].astype(np.float64) + bias
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        picked = np.take_along_axis(logits, batch["y"][..., None], -1)[..., 0]
        real = batch["y"] != 0
        total -= picked[real].sum()
        tokens += real.sum()
    return total / tokens, tokens


def local_weights(batch_list):
    """A client's weights after training alone, through TFF's FedAvg."""
    process = fed_avg()
    output = process.next(process.initialize(), [dataset(batch_list)])
    return [np.asarray(w) for w in process.get_model_weights(output.state).trainable]


def numpy_losses_of_steps(weights, batch_list, rate=0.5):
    """Token-mean loss over a client's steps of SGD, each before its step; float64."""
    table, bias = (np.array(w, np.float64) for w in weights)
    total = tokens = 0.0
    for batch in batch_list:
        loss, count = numpy_loss((table, bias), [batch])
        total, tokens = total + loss * count, tokens + count
        logits = table[batch["x"]] + bias
        errors = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        errors -= np.eye(VOCABULARY)[batch["y"]]
        errors *= (batch["y"] != 0)[..., None] / count
        step = np.zeros_like(table)
        np.add.at(step, batch["x"], errors)
        table, bias = table - rate * step, bias - rate * errors.sum((0, 1))
    return total / tokens


@pytest.mark.parametrize(
    "local_loss, wrap",
    [
        pytest.param("during_training", None, marks=pytest.mark.slow),
        pytest.param("after_training", None, marks=pytest.mark.slow),
        pytest.param("after_training", lambda work: work, marks=pytest.mark.slow),
    ],
    ids=["during", "after", "after, of wrapped work"],
)
def test_a_round_is_algorithm_1_on_real_training(local_loss, wrap):
    clients = [batches(seed, count) for seed, count in ((1, 1), (2, 2), (3, 3))]
    process = fedmed_process.build_fedmed(
        BigramModel,
        FedMedFactory(top_fraction=0.6, local_loss=local_loss, max_clients=3),
        client_optimizer=SGD(0.5),
        server_optimizer=SGD(1.0),
        wrap_client_work=wrap,
    )
    state = process.initialize()
    server = [np.asarray(w, np.float64) for w in process.get_model_weights(state).trainable]
    output = process.next(state, [dataset(c) for c in clients])

    trained = [local_weights(c) for c in clients]
    if local_loss == "after_training":
        losses = [numpy_loss(w, c)[0] for w, c in zip(trained, clients, strict=True)]
    else:
        losses = [numpy_losses_of_steps(server, c) for c in clients]
    best = np.argsort(losses)[:2]
    expected = []
    for layer, weights in enumerate(server):
        js = [
            distance.jensenshannon(np.abs(weights).ravel(), np.abs(trained[k][layer]).ravel()) ** 2
            for k in best
        ]
        gamma = np.exp(js) / np.exp(js).sum()
        step = sum(g * (weights - trained[k][layer]) for g, k in zip(gamma, best, strict=True))
        expected.append(weights - step)
    for got, wanted in zip(
        process.get_model_weights(output.state).trainable, expected, strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    measured = output.metrics["aggregator"]
    assert measured["top_clients"] == 2
    np.testing.assert_allclose(measured["mean_loss"], np.mean(losses), rtol=1e-5)


@pytest.mark.slow
def test_the_fedavg_branch_is_fedavg():
    """A huge threshold: after the first round mediation always chooses FedAvg."""
    clients = [dataset(batches(seed, seed)) for seed in (1, 2, 3)]
    process = fedmed_process.build_fedmed(
        BigramModel,
        FedMedFactory(mediation_threshold=1e6, max_clients=3),
        client_optimizer=SGD(0.5),
        server_optimizer=SGD(1.0),
    )
    first = process.next(process.initialize(), clients)
    second = process.next(first.state, clients)
    control = fed_avg()
    state = control.set_model_weights(control.initialize(), process.get_model_weights(first.state))
    expected = control.get_model_weights(control.next(state, clients).state).trainable
    for got, wanted in zip(
        process.get_model_weights(second.state).trainable, expected, strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_empty_clients_do_not_count():
    process = fedmed_process.build_fedmed(
        BigramModel,
        FedMedFactory(max_clients=3),
        client_optimizer=SGD(0.5),
        server_optimizer=SGD(1.0),
    )
    output = process.next(process.initialize(), [dataset(batches(1)), dataset([])])
    assert output.metrics["aggregator"]["clients"] == 1


@pytest.mark.parametrize(
    "optimizer, uniform",
    [
        pytest.param(optimizer, uniform, id=f"{name}-{uniform}", marks=marks)
        for name, optimizer, uniform, marks in (
            ("sgd", SGD(0.5), False, ()),
            ("sgd", SGD(0.5), True, pytest.mark.slow),
            ("momentum", SGD(0.1, momentum=0.9), False, pytest.mark.slow),
            ("momentum", SGD(0.1, momentum=0.9), True, pytest.mark.slow),
            ("adam", tff.learning.optimizers.build_adam(0.01), False, pytest.mark.slow),
            ("adam", tff.learning.optimizers.build_adam(0.01), True, pytest.mark.slow),
        )
    ],
)
@pytest.mark.parametrize("local_loss", ["during_training", "after_training"])
@pytest.mark.slow
def test_local_training_has_the_bits_of_tffs(stock_tff, optimizer, uniform, local_loss):
    """A pass after training leaves delta and metrics alone."""
    weighting = tff.learning.ClientWeighting
    tffs = tff.learning.templates.build_model_delta_client_work(
        CountingModel,
        optimizer,
        weighting.UNIFORM if uniform else weighting.NUM_EXAMPLES,
        loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR,
    )
    ours = build_client_training(
        CountingModel, optimizer, uniform_weights=uniform, reports_loss=local_loss
    )
    assert ours.get_hparams.type_signature == tffs.get_hparams.type_signature
    clients = [batches(1), batches(2, 5), [], BLOWN_UP]
    data = [dataset(client) for client in clients]
    weights = tff.learning.models.ModelWeights.from_model(CountingModel())
    weights = tf.nest.map_structure(lambda v: v.numpy(), weights)
    with stock_tff():  # what stays at clients has no form of ours
        expected, got = (w.next(w.initialize(), [weights] * len(data), data) for w in (tffs, ours))
    for theirs, our, client in zip(expected.result, got.result, clients, strict=True):
        for a, b in zip(theirs.update, our.update, strict=True):
            np.testing.assert_array_equal(a, b)
        assert our.update_weight["num_examples"] == theirs.update_weight
        if client is BLOWN_UP:
            assert our.update_weight["loss"] == 0
    assert got.measurements == expected.measurements
    assert got.state == expected.state


def test_losses_of_steps_match_numpy(stock_tff):
    work = build_client_training(BigramModel, SGD(0.5), reports_loss="during_training")
    clients = [batches(1, 1), batches(2, 4), []]
    weights = tff.learning.models.ModelWeights.from_model(BigramModel())
    weights = tf.nest.map_structure(lambda v: v.numpy(), weights)
    with stock_tff():  # what stays at clients has no form of ours
        output = work.next(work.initialize(), [weights] * 3, [dataset(c) for c in clients])
    got = [result.update_weight["loss"] for result in output.result]
    expected = [numpy_losses_of_steps(weights.trainable, c) for c in clients[:2]]
    np.testing.assert_allclose(got, [*expected, 0.0], rtol=1e-5)
