"""Learning without forgetting: one client's local training against the equations, step by step."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_keyboard.algorithms import fed_avg as algorithms
from tff_keyboard.algorithms import variable_model
from tff_keyboard.algorithms.composition import with_initial_weights
from tff_keyboard.algorithms.fine_tuning import lwf
from tff_keyboard.data import batches as batches_lib
from tff_keyboard.models import build_model

VOCABULARY, OPTIONS, LEARNING_RATE = 15, {"units": 6, "embedding_size": 4}, 0.7


def client_batches(seed):
    rng = np.random.default_rng(seed)
    messages = [rng.integers(4, VOCABULARY, rng.integers(1, 7)) for _ in range(8)]
    return batches_lib.client_batches(
        messages, batch_size=3, max_length=6, max_examples=0, epochs=2, seed=(seed,)
    )


@functools.cache
def process(true_label_weight):
    """FedAvg that takes the mean of what clients train with this weight; None: ordinary loss."""
    model_fn = (
        variable_model.build_model_fn("cifg", vocabulary_size=VOCABULARY, seed=None, **OPTIONS)
        if true_label_weight is None
        else lwf.build_lwf_model_fn(
            "cifg",
            vocabulary_size=VOCABULARY,
            options=OPTIONS,
            true_label_weight=true_label_weight,
        )
    )
    built = algorithms.build_fed_avg(
        model_fn,
        client_optimizer=tff.learning.optimizers.build_sgdm(LEARNING_RATE),
        server_optimizer=tff.learning.optimizers.build_sgdm(1.0),
        aggregator=tff.aggregators.MeanFactory(),
        uniform_weights=True,
    )
    return with_initial_weights(built, initial_model().get_weights())


def initial_model():
    model = build_model("cifg", vocabulary_size=VOCABULARY, seed=3, **OPTIONS)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=w.shape) * 0.5 for w in model.get_weights()])
    return model


def truth(client, weight):
    """SGD on the equations as they stand, TensorFlow's own losses and gradients."""
    teacher, student = initial_model(), initial_model()
    nll = tokens = 0
    for batch in client:
        ids, targets = tf.constant(batch[:, :-1]), tf.constant(batch[:, 1:])
        real = tf.not_equal(targets, 0)
        soft = tf.nn.softmax(tf.boolean_mask(teacher(ids), real))
        words = tf.boolean_mask(targets, real)
        with tf.GradientTape() as tape:
            logits = tf.boolean_mask(student(ids), real)
            true = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
            kept = tf.nn.softmax_cross_entropy_with_logits(soft, logits)
            loss = tf.reduce_mean(weight * true + (1 - weight) * kept)
        nll, tokens = nll + float(tf.reduce_sum(true)), tokens + len(words)
        variables = student.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(LEARNING_RATE * tf.convert_to_tensor(gradient))
    return student.get_weights(), nll, tokens


@pytest.mark.slow
@pytest.mark.parametrize("weight", [0.1, pytest.param(0.9, marks=pytest.mark.slow)])
def test_a_round_equals_the_equations(weight):
    client = client_batches(1)
    built = process(weight)
    output = built.next(built.initialize(), [batches_lib.batches_dataset(client)])
    expected, nll, tokens = truth(client, weight)
    for got, want in zip(built.get_model_weights(output.state).trainable, expected, strict=True):
        np.testing.assert_allclose(got, want, atol=2e-5)
    metrics = output.metrics["client_work"]["train"]
    assert metrics["nll"] == pytest.approx(nll, rel=1e-4)
    assert metrics["tokens"] == tokens


@pytest.mark.slow
def test_every_client_of_a_round_has_the_received_model_as_teacher():
    """Two equal clients give what one does: nothing is left over from the one before."""
    data = batches_lib.batches_dataset(client_batches(2))
    built = process(0.1)
    one = built.get_model_weights(built.next(built.initialize(), [data]).state).trainable
    two = built.get_model_weights(built.next(built.initialize(), [data] * 3).state).trainable
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.slow
def test_second_round_learns_from_the_second_model():
    """After round one the teacher is the new global model: with weight 0 nothing moves, ever."""
    data = batches_lib.batches_dataset(client_batches(3))
    moved, still = process(0.9), process(0.0)
    state = moved.next(moved.initialize(), [data]).state
    state = still.set_model_weights(still.initialize(), moved.get_model_weights(state))
    after = still.next(state, [data]).state
    for a, b in zip(
        still.get_model_weights(state).trainable,
        still.get_model_weights(after).trainable,
        strict=True,
    ):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.slow
def test_weight_one_is_ordinary_training():
    data = batches_lib.batches_dataset(client_batches(4))
    results = []
    for built in (process(1.0), process(None)):
        output = built.next(built.initialize(), [data])
        results.append(built.get_model_weights(output.state).trainable)
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.slow
def test_smaller_lambda_stays_closer_to_the_received_model():
    """The smaller lambda, the smaller the step away from the received model's predictions."""
    data = batches_lib.batches_dataset(client_batches(5))
    distances = []
    for weight in (0.1, 0.9, 1.0):
        built = process(weight)
        after = built.get_model_weights(built.next(built.initialize(), [data]).state).trainable
        distances.append(
            sum(
                float(np.sum((a - b) ** 2))
                for a, b in zip(after, initial_model().get_weights(), strict=True)
            )
        )
    assert distances == sorted(distances)
    assert distances[0] < 0.5 * distances[-1]


def test_without_training_the_loss_is_the_ordinary_one():
    model = lwf.build_lwf_model_fn(
        "cifg", vocabulary_size=VOCABULARY, options=OPTIONS, true_label_weight=0.2
    )()
    ordinary = variable_model.build_model_fn(
        "cifg", vocabulary_size=VOCABULARY, seed=None, **OPTIONS
    )()
    for built in (model, ordinary):
        for variable, value in zip(
            built.trainable_variables, initial_model().get_weights(), strict=True
        ):
            variable.assign(value)
    batch = client_batches(6)[0]
    spec = collections.OrderedDict(x=tf.constant(batch[:, :-1]), y=tf.constant(batch[:, 1:]))
    losses = [float(m.forward_pass(spec, training=False).loss) for m in (model, ordinary)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_rejects_a_weight_outside_the_unit_interval():
    build = lwf.build_lwf_model_fn(
        "cifg", vocabulary_size=VOCABULARY, options=OPTIONS, true_label_weight=-0.1
    )
    with pytest.raises(ValueError, match="true_label_weight"):
        build()
