"""The TFF model inside real learning processes, against plain SGD and sums in this process."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.evaluation.reference import sums_of
from tests.support import user_models
from tests.support.truth import model_truth
from tff_keyboard.algorithms import variable_model
from tff_keyboard.algorithms.variable_model import build_model_fn
from tff_keyboard.data import batches as batches_module
from tff_keyboard.models import build_model

VOCABULARY = 12
OPTIONS = {
    "cifg": {"units": 5, "embedding_size": 4},
    "gru": {"units": 4, "embedding_size": 4, "tied": True},
    "lstm2": {"units": 4, "embedding_size": 3, "dropout": 0.3},
    "transformer": {"embedding_size": 4, "layers": 1, "heads": 2, "feed_forward_size": 5},
    # Models of a user
    f"{user_models.__file__}:gru": {"units": 4},
    f"{user_models.__file__}:attention": {"rate": 0.0},
    f"{user_models.__file__}:Elman": {"units": 4},
}
USER_MODELS = [name for name in OPTIONS if ":" in name]
LEARNING_RATE = 0.5


def client(seed, batches=2):
    rng = np.random.default_rng(seed)
    return [
        model_truth.random_batch(rng, batch=3, longest=5 + k, vocabulary=VOCABULARY)
        for k in range(batches)
    ]


def dataset(batches):
    return batches_module.batches_dataset(batches)


def model_fn(name, **options):
    return build_model_fn(name, vocabulary_size=VOCABULARY, seed=3, **OPTIONS[name], **options)


def sgd_by_hand(model, clients):
    """The weighted mean of clients' weights after local SGD on the textbook loss."""
    start = [v.numpy() for v in model.trainable_variables]
    total, sums = 0, [np.zeros_like(w, np.float64) for w in start]
    nll = 0.0
    for batches in clients:
        for variable, value in zip(model.trainable_variables, start, strict=True):
            variable.assign(value)
        tokens = 0
        for batch in batches:
            with tf.GradientTape() as tape:
                losses = tf.keras.losses.sparse_categorical_crossentropy(
                    batch[:, 1:], model(batch[:, :-1], training=True), from_logits=True
                )
                real = tf.cast(batch[:, 1:] != 0, tf.float32)
                loss = tf.reduce_sum(losses * real) / tf.reduce_sum(real)
            gradients = tape.gradient(loss, model.trainable_variables)
            for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
                variable.assign_sub(LEARNING_RATE * tf.convert_to_tensor(gradient))
            tokens += int(tf.reduce_sum(real))
            nll += float(tf.reduce_sum(losses * real))
        total += tokens
        for sum_, variable in zip(sums, model.trainable_variables, strict=True):
            sum_ += tokens * variable.numpy()
    return [sum_ / total for sum_ in sums], nll


@pytest.mark.parametrize(
    "name", ["cifg", pytest.param("gru", marks=pytest.mark.slow), *USER_MODELS]
)
def test_fed_avg_matches_sgd_by_hand(name):
    clients = [client(0, 3), client(1, 1), []]  # the last client has no data and no weight
    build = tff.learning.optimizers.build_sgdm
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn(name), build(LEARNING_RATE), build(1.0)
    )
    model = build_model(name, vocabulary_size=VOCABULARY, seed=3, **OPTIONS[name])
    state = process.initialize()
    for weight, variable in zip(
        process.get_model_weights(state).trainable, model.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(weight, variable)
    for _ in range(2):
        expected, nll = sgd_by_hand(model, clients)
        output = process.next(state, [dataset(batches) for batches in clients])
        state = output.state
        for weight, value, variable in zip(
            process.get_model_weights(state).trainable,
            expected,
            model.trainable_variables,
            strict=True,
        ):
            np.testing.assert_allclose(weight, value, rtol=1e-4, atol=1e-6)
            variable.assign(value)
        metrics = output.metrics["client_work"]["train"]
        tokens = sum(np.count_nonzero(b[:, 1:]) for batches in clients for b in batches)
        assert metrics["tokens"] == tokens
        assert metrics["examples"] == 3 * 4
        np.testing.assert_allclose(metrics["nll"], nll, rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["cifg", pytest.param("lstm2", marks=pytest.mark.slow), *USER_MODELS]
)
def test_fed_eval_matches_sums_in_this_process(name):
    clients = [client(0), client(1)]
    process = tff.learning.algorithms.build_fed_eval(model_fn(name, evaluation=True))
    output = process.next(process.initialize(), [dataset(batches) for batches in clients])
    found = output.metrics["client_work"]["eval"]["current_round_metrics"]
    model = build_model(name, vocabulary_size=VOCABULARY, seed=3, **OPTIONS[name])
    expected = sums_of(model, [b for batches in clients for b in batches])
    assert list(found) == list(expected)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-6, err_msg=key)


@pytest.mark.slow
def test_dropout_trains_the_same_twice():
    build = tff.learning.optimizers.build_sgdm
    process = tff.learning.algorithms.build_weighted_fed_avg(
        model_fn("lstm2"), build(LEARNING_RATE), build(1.0)
    )
    data = [dataset(client(0, 3))]
    first, second = (process.next(process.initialize(), data) for _ in range(2))
    for a, b in zip(
        process.get_model_weights(first.state).trainable,
        process.get_model_weights(second.state).trainable,
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("unit", variable_model.WEIGHT_UNITS)
def test_num_examples_counts_the_weight_unit(unit):
    model = model_fn("cifg", weight_unit=unit)()
    (batch,) = client(0, 1)
    output = model.forward_pass({"x": batch[:, :-1], "y": batch[:, 1:]})
    tokens = np.count_nonzero(batch[:, 1:])
    assert int(output.num_examples) == {"tokens": tokens, "examples": 3}[unit]


def test_metrics_reset_and_every_model_has_its_own_variables():
    build = model_fn("cifg")
    first, second = build(), build()
    (batch,) = client(0, 1)
    first.forward_pass({"x": batch[:, :-1], "y": batch[:, 1:]})
    assert first.report_local_unfinalized_metrics()["examples"] == 3
    assert second.report_local_unfinalized_metrics()["examples"] == 0
    first.reset_metrics()
    assert all(v == 0 for v in first.report_local_unfinalized_metrics().values())
    assert list(first.metric_finalizers()) == list(first.report_local_unfinalized_metrics())


def test_batch_without_targets_has_no_loss_and_no_gradient():
    model = model_fn("cifg")()
    empty = tf.zeros([2, 3], tf.int32)
    with tf.GradientTape() as tape:
        loss = model.forward_pass({"x": empty, "y": empty}).loss
    assert loss == 0
    for gradient in tape.gradient(loss, model.trainable_variables):
        assert not np.any(gradient)


def test_input_spec_matches_the_batches():
    assert dataset(client(0)).element_spec == model_fn("cifg")().input_spec


def test_rejects_an_unknown_weight_unit():
    with pytest.raises(ValueError, match="`weight_unit` must be one of"):
        model_fn("cifg", weight_unit="words")()
