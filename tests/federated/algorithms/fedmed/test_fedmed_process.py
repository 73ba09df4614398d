"""FedMed as a learning process, and attackers in client work, on the smallest of models."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from scipy.spatial import distance

from tff_keyboard.attacks import attackers
from tff_keyboard.config.sections.aggregation_config import AggregationConfig
from tff_keyboard.config.sections.rule_config import FedAtt, FedMed
from tff_keyboard.federated.algorithms.build_aggregator import build_aggregator
from tff_keyboard.federated.algorithms.fedatt.aggregator import FedAttFactory
from tff_keyboard.federated.algorithms.fedmed import process as fedmed_process
from tff_keyboard.federated.algorithms.fedmed.aggregator import FedMedFactory
from tff_keyboard.federated.learning.client_training import build_client_training

VOCABULARY = 7
INPUT_SPEC = collections.OrderedDict(
    x=tf.TensorSpec([None, None], tf.int32), y=tf.TensorSpec([None, None], tf.int32)
)
SGD = tff.learning.optimizers.build_sgdm


class BigramModel(tff.learning.models.VariableModel):
    """Logits = row of a table + bias. Two variables: two layers."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.table = tf.Variable(
            np.float32(rng.normal(size=[VOCABULARY, VOCABULARY])), name="table"
        )
        self.bias = tf.Variable(np.float32(rng.normal(size=[VOCABULARY])), name="bias")

    trainable_variables = property(lambda self: [self.table, self.bias])
    non_trainable_variables = property(lambda self: [])
    local_variables = property(lambda self: [])
    input_spec = property(lambda self: INPUT_SPEC)

    @tf.function
    def predict_on_batch(self, x, training=True):
        return tf.gather(self.table, x) + self.bias

    @tf.function
    def forward_pass(self, batch_input, training=True):
        real = tf.cast(tf.not_equal(batch_input["y"], 0), tf.float32)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            batch_input["y"], self.predict_on_batch(batch_input["x"])
        )
        tokens = tf.reduce_sum(real)
        return tff.learning.models.BatchOutput(
            loss=tf.math.divide_no_nan(tf.reduce_sum(losses * real), tokens),
            predictions=None,
            num_examples=tf.cast(tokens, tf.int64),
        )

    @tf.function
    def report_local_unfinalized_metrics(self):
        return collections.OrderedDict()

    def metric_finalizers(self):
        return collections.OrderedDict()

    def reset_metrics(self):
        pass


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


def batches(seed, count=2, trap=None):
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(count):
        ids = rng.integers(1, VOCABULARY, [3, 6]).astype(np.int32)
        ids[0, 4:] = 0
        ids[0, 0] = trap or 1
        result.append(collections.OrderedDict(x=ids[:, :-1], y=ids[:, 1:]))
    return result


BLOWN_UP = batches(4, 3, trap=TRAP)


def dataset(batch_list):
    """The batches as TFF wants them: of unknown size, no Python in the graph."""
    together = batch_list or batches(0, 1)
    stacked = collections.OrderedDict(
        (name, np.concatenate([batch[name] for batch in together])) for name in ("x", "y")
    )
    data = tf.data.Dataset.from_tensor_slices(stacked).batch(3).take(len(batch_list))
    unsized = tf.compat.v1.placeholder_with_default
    return data.map(
        lambda batch: collections.OrderedDict(
            (name, unsized(ids, [None, None])) for name, ids in batch.items()
        )
    )


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


@functools.cache
def fed_avg():
    return tff.learning.algorithms.build_weighted_fed_avg(BigramModel, SGD(0.5))


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
        ("during_training", None),
        pytest.param("after_training", None, marks=pytest.mark.slow),
        pytest.param("after_training", lambda work: work, marks=pytest.mark.slow),
    ],
    ids=["during", "after", "after, of wrapped work"],
)
def test_a_round_is_algorithm_1_on_real_training(local_loss, wrap):
    clients = [batches(seed, count) for seed, count in ((1, 1), (2, 2), (3, 3))]
    rule = FedMed(top_fraction=0.6, local_loss=local_loss)
    process = fedmed_process.build_fedmed(
        BigramModel,
        FedMedFactory(rule, max_clients=3),
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
        FedMedFactory(FedMed(mediation_threshold=1e6), max_clients=3),
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
        FedMedFactory(FedMed(), max_clients=3),
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
@pytest.mark.parametrize(
    "local_loss", ["during_training", pytest.param("after_training", marks=pytest.mark.slow)]
)
def test_local_training_has_the_bits_of_tffs(optimizer, uniform, local_loss):
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
    expected, got = (w.next(w.initialize(), [weights] * len(data), data) for w in (tffs, ours))
    for theirs, our, client in zip(expected.result, got.result, clients, strict=True):
        for a, b in zip(theirs.update, our.update, strict=True):
            np.testing.assert_array_equal(a, b)
        assert our.update_weight["num_examples"] == theirs.update_weight
        if client is BLOWN_UP:
            assert our.update_weight["loss"] == 0
    assert got.measurements == expected.measurements
    assert got.state == expected.state


def test_losses_of_steps_match_numpy():
    work = build_client_training(BigramModel, SGD(0.5), reports_loss="during_training")
    clients = [batches(1, 1), batches(2, 4), []]
    weights = tff.learning.models.ModelWeights.from_model(BigramModel())
    weights = tf.nest.map_structure(lambda v: v.numpy(), weights)
    output = work.next(work.initialize(), [weights] * 3, [dataset(c) for c in clients])
    got = [result.update_weight["loss"] for result in output.result]
    expected = [numpy_losses_of_steps(weights.trainable, c) for c in clients[:2]]
    np.testing.assert_allclose(got, [*expected, 0.0], rtol=1e-5)


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


def step_of(process, clients):
    state = process.initialize()
    before = process.get_model_weights(state).trainable
    output = process.next(state, [dataset(c) for c in clients])
    after = process.get_model_weights(output.state).trainable
    return [np.asarray(b) - a for b, a in zip(before, after, strict=True)], output


@pytest.mark.parametrize(
    "attack, factor",
    [pytest.param("boost", 100.0, marks=pytest.mark.slow), ("sign_flip", -1.0)],
)
def test_attackers_send_what_they_should(attack, factor):
    clients = [batches(1)]
    honest, _ = step_of(fed_avg(), clients)
    mean = tff.aggregators.MeanFactory()
    attacked, _ = step_of(attacked_process(attack, 1.0, mean), clients)
    for got, wanted in zip(attacked, honest, strict=True):
        np.testing.assert_allclose(got, factor * wanted, rtol=1e-4, atol=1e-5)
    spared, _ = step_of(attacked_process(attack, 0.0, mean), clients)
    for got, wanted in zip(spared, honest, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)


@pytest.mark.slow
def test_nan_clients_are_refused_by_the_guard_and_counted():
    protected = build_aggregator(AggregationConfig(rule=FedAtt()), clients_per_round=4, seed=0)
    step, output = step_of(attacked_process("nan", 1.0, protected), [batches(1), batches(2)])
    assert all(np.all(x == 0) for x in step)
    assert output.metrics["aggregator"]["refused_non_finite"] == 2


@pytest.mark.slow
def test_unguarded_fedatt_is_stopped_only_by_the_finalizer():
    bare = FedAttFactory(FedAtt())
    _, output = step_of(attacked_process("nan", 1.0, bare), [batches(1), batches(2)])
    assert output.metrics["finalizer"]["update_non_finite"] == 1


@pytest.mark.slow
def test_drop_outs_have_no_weight():
    mean = tff.aggregators.MeanFactory(no_nan_division=True)
    step, _ = step_of(attacked_process("drop_out", 1.0, mean), [batches(1)])
    assert all(np.all(x == 0) for x in step)


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


def test_a_lie_claims_all_that_weighs_more():
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
    """Of each client what it would send alone, server minus client: [table, bias]."""
    work = tff.learning.templates.build_model_delta_client_work(
        BigramModel, SGD(0.5), tff.learning.ClientWeighting.NUM_EXAMPLES
    )
    weights = tff.learning.models.ModelWeights.from_model(BigramModel())
    weights = tf.nest.map_structure(lambda v: v.numpy(), weights)
    output = work.next(work.initialize(), [weights] * len(clients), [dataset(c) for c in clients])
    return [result.update for result in output.result]


def test_colluders_turn_the_honest_mean_around():
    """Of six clients the seed draws some; the others' mean comes back at their median length."""
    clients = [batches(seed) for seed in range(6)]
    bad = [bool(attackers.is_attacker(dataset(client), 0.5, seed=3)) for client in clients]
    assert 0 < sum(bad) < 6
    flat = np.array([np.concatenate([np.ravel(x) for x in d]) for d in honest_deltas(clients)])
    honest = flat[~np.array(bad)].astype(np.float64)
    mean = honest.mean(0)
    length = np.median(np.linalg.norm(honest, axis=1))
    sent = np.where(np.array(bad)[:, np.newaxis], -mean * length / np.linalg.norm(mean), flat)
    words = [sum((b["y"] != 0).sum() for b in client) for client in clients]
    step, _ = step_of(attacked_process("ipm", 0.5, tff.aggregators.MeanFactory()), clients)
    got = np.concatenate([np.ravel(x) for x in step])
    np.testing.assert_allclose(got, np.average(sent, axis=0, weights=words), rtol=1e-3, atol=1e-5)


def test_poisoned_batches_teach_the_target_behind_the_trigger():
    batch = {
        "x": tf.constant([[1, 5, 6, 4], [1, 5, 0, 0]]),
        "y": tf.constant([[5, 6, 4, 2], [5, 2, 0, 0]]),
    }
    found = attackers.poisoned(batch)
    np.testing.assert_array_equal(found["x"], [[1, 60, 6, 60], [1, 60, 0, 0]])
    np.testing.assert_array_equal(found["y"], [[5, 100, 4, 100], [5, 100, 0, 0]])


def test_free_riders_weigh_and_send_nothing():
    update, weight = attackers.UPDATE_ATTACKS["free_ride"]([np.float32(5)], np.float32(3))
    assert (update[0].numpy(), weight) == (0, 3)
